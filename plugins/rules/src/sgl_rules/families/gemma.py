"""Gemma 2, 3, 3n and 4: sliding windows, and the attention kernels that serve them."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, suggest

from ..asking import fill, in_order, phase_backends
from ..machine import is_sm100
from ..quantization import served_method

WINDOWED = (
    "Gemma2ForCausalLM",
    "Gemma3ForCausalLM",
    "Gemma3ForConditionalGeneration",
    "Gemma3nForCausalLM",
    "Gemma3nForConditionalGeneration",
)
GEMMA4 = ("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration")
_GEMMA4_BACKENDS = ("trtllm_mha", "triton", "ascend", "intel_xpu", "intel_amx")


@rule(
    stage="model",
    reads=("disable_hybrid_swa_memory",),
    architectures=WINDOWED,
    writes=("disable_hybrid_swa_memory",),
    before=("state_cache",),
)
def gemma_one_pool(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Windows of Gemma 2 and 3 are so long that separate pools save little."""
    if not view.disable_hybrid_swa_memory:
        yield force("disable_hybrid_swa_memory", True, "windowed layers share the pool of the others")


@rule(
    stage="model",
    architectures=GEMMA4,
    reads=("attention_backend", "quantization", "moe_runner_backend"),
    writes=("attention_backend", "quantization", "moe_runner_backend"),
    before=("state_cache",),
)
def gemma4_kernels(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Gemma 4 heads are wider than most kernels take; NVFP4 experts have a runner on SM100."""
    sm100 = is_sm100(facts)
    if view.attention_backend is None:
        backend = "trtllm_mha" if sm100 else "triton"
        yield suggest("attention_backend", backend, "a kernel for heads of 512 on this device")
    nvfp4 = served_method(view.quantization, facts, model) == "modelopt_fp4"
    if sm100 and view.moe_runner_backend == "auto" and nvfp4:
        yield fill(view, "quantization", "modelopt_fp4", "the checkpoint says so")
        yield fill(view, "moe_runner_backend", "flashinfer_trtllm", "the fastest runner for NVFP4 on this GPU")


@rule(
    stage="model",
    architectures=GEMMA4,
    reads=("attention_backend", "prefill_attention_backend", "decode_attention_backend"),
    after=("gemma4_kernels",),
    before=("state_cache",),
)
def gemma4_limits(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Only some kernels take heads of 512."""
    yield require(
        all(backend in _GEMMA4_BACKENDS for backend in phase_backends(view)),
        "the model has heads of 512",
        fix=f"use one of {', '.join(_GEMMA4_BACKENDS)}",
        fields=("attention_backend", "prefill_attention_backend", "decode_attention_backend"),
        kind="AssertionError",
    )


RULES = in_order(gemma_one_pool, gemma4_kernels, gemma4_limits)
