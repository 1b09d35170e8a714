"""EXAONE 4, OLMo 2 and OLMo 3: sliding windows in one pool, and the kernels they were proven with."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, suggest

from ..asking import in_order
from ..machine import is_cuda, is_sm100

EXAONE = ("Exaone4ForCausalLM", "ExaoneMoEForCausalLM")
OLMO2 = ("Olmo2ForCausalLM", "Olmo3ForCausalLM")
_EXAONE_BACKENDS = ("fa3", "triton", "trtllm_mha")


@rule(
    stage="model",
    architectures=EXAONE,
    reads=("attention_backend", "disable_hybrid_swa_memory"),
    writes=("disable_hybrid_swa_memory",),
    before=("state_cache",),
)
def exaone_windows(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """EXAONE with windows shares one pool and needs a kernel with windows."""
    if model.hf_config.get("sliding_window_pattern") is None:
        return
    if not view.disable_hybrid_swa_memory:
        yield force("disable_hybrid_swa_memory", True, "windowed layers share the pool of the others")
    yield require(
        view.attention_backend in _EXAONE_BACKENDS,
        f"{model.architecture} has sliding windows",
        fix=f"use --attention-backend with one of {', '.join(_EXAONE_BACKENDS)}",
        fields=("attention_backend",),
        kind="AssertionError",
    )


@rule(
    stage="model",
    architectures=OLMO2,
    reads=("attention_backend", "disable_hybrid_swa_memory"),
    writes=("attention_backend", "disable_hybrid_swa_memory"),
    before=("state_cache",),
)
def olmo_windows(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """OLMo shares one pool; FlashInfer is slow on its windows."""
    if not view.disable_hybrid_swa_memory:
        yield force("disable_hybrid_swa_memory", True, "windowed layers share the pool of the others")
    backend = view.attention_backend
    if backend is None:
        if is_sm100(facts):
            backend = "trtllm_mha"
        else:
            backend = "fa3" if is_cuda(facts) and facts.arch >= 80 else "triton"
        yield suggest("attention_backend", backend, "the fastest kernel with windows on this device")
    yield require(
        backend != "flashinfer",
        "FlashInfer is much slower on this model's windows",
        fix="drop --attention-backend",
        fields=("attention_backend",),
        kind="AssertionError",
    )


RULES = in_order(exaone_windows, olmo_windows)
