"""Llama 4: chunked local attention, which some kernels serve."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, require, rule, suggest

from ..asking import fill, in_order
from ..machine import is_rocm, is_sm90, is_sm100

LLAMA4 = ("Llama4ForCausalLM", "Llama4ForConditionalGeneration")
_BACKENDS = ("fa3", "aiter", "triton", "ascend", "trtllm_mha", "intel_xpu")


@rule(
    stage="model",
    architectures=LLAMA4,
    reads=("device", "attention_backend", "moe_runner_backend", "quantization"),
    writes=("attention_backend", "moe_runner_backend"),
    before=("state_cache",),
)
def llama4_kernels(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The kernel with chunked local attention for each device, and the FP8 runner on SM100."""
    if view.device == "cpu":
        return
    if view.attention_backend is None:
        if is_sm100(facts):
            backend = "trtllm_mha"
        elif is_sm90(facts):
            backend = "fa3"
        elif is_rocm(facts):
            backend = "aiter"
        else:
            backend = "intel_xpu" if view.device == "xpu" else "triton"
        yield suggest("attention_backend", backend, "the kernel with chunked local attention for this device")
    if is_sm100(facts) and view.moe_runner_backend == "auto" and view.quantization in ("fp8", "modelopt_fp8"):
        yield fill(view, "moe_runner_backend", "flashinfer_trtllm", "the fastest runner for FP8 experts on this GPU")


@rule(
    stage="model",
    architectures=LLAMA4,
    reads=("device", "attention_backend"),
    after=("llama4_kernels",),
    before=("state_cache",),
)
def llama4_limits(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Kernels without chunked local attention give wrong answers."""
    yield require(
        view.device == "cpu" or view.attention_backend in _BACKENDS,
        "the model attends within chunks",
        fix=f"use one of {', '.join(_BACKENDS)}",
        fields=("attention_backend",),
        kind="AssertionError",
    )


RULES = in_order(llama4_kernels, llama4_limits)
