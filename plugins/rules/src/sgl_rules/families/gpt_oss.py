"""GPT-OSS: attention sinks, MXFP4 experts."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, require, rule, suggest

from ..asking import backends_unset, fill, in_order, phase_backends
from ..machine import (
    has_amx,
    has_library,
    is_blackwell,
    is_cpu,
    is_musa,
    is_rocm,
    is_sm90,
    is_sm100,
    is_sm120,
    is_xpu,
    switch,
    uses_aiter,
    uses_mlx,
    version_at_least,
)

GPT_OSS = ("GptOssForCausalLM",)
_WITH_SINKS = ("triton", "trtllm_mha", "fa3", "fa4", "ascend", "intel_amx", "intel_xpu", "aiter")


def _sink_kernel(facts: Facts) -> str | None:
    """The attention kernel that applies sinks fastest on a machine; None where MLX attends by itself."""
    if is_sm100(facts):
        return "trtllm_mha"
    if is_sm90(facts):
        return "fa3"
    if is_cpu(facts) and has_amx(facts):
        return "intel_amx"
    if is_xpu(facts):
        return "intel_xpu"
    if is_rocm(facts):
        return "aiter"
    return None if uses_mlx(facts) else "triton"


@rule(
    stage="model",
    architectures=GPT_OSS,
    reads=("attention_backend", "prefill_attention_backend", "decode_attention_backend", "dtype"),
    writes=("attention_backend", "dtype"),
    before=("state_cache",),
)
def sink_attention(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The attention kernel must apply sinks; MXFP4 checkpoints compute in bfloat16."""
    kernel = _sink_kernel(facts)
    if backends_unset(view) and kernel is not None:
        yield suggest("attention_backend", kernel, "the kernel with attention sinks for this device")
    yield require(
        not is_xpu(facts) or view.dtype in ("auto", "bfloat16"),
        "the model runs in bfloat16 on Intel GPUs",
        fix="use --dtype bfloat16",
        fields=("dtype",),
        kind="NotImplementedError",
    )
    if model.quant_method == "mxfp4" and view.dtype != "bfloat16":
        yield fill(view, "dtype", "bfloat16", "scales of MXFP4 exceed the range of half precision")


@rule(
    stage="model",
    architectures=GPT_OSS,
    reads=("moe_runner_backend", "ep_size", "quantization"),
    writes=("moe_runner_backend",),
    after=("sink_attention",),
    before=("state_cache",),
)
def gpt_oss_experts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The runner that keeps MXFP4 experts in four bits, by device."""
    if view.moe_runner_backend != "auto":
        return
    mxfp4, aiter = model.quant_method == "mxfp4", is_rocm(facts) and uses_aiter(facts)
    single = view.ep_size == 1 and view.quantization is None
    if mxfp4 and (is_sm100(facts) or is_sm120(facts)):
        yield fill(view, "moe_runner_backend", "flashinfer_mxfp4", "the runner for MXFP4 experts on this GPU")
    elif aiter:
        if not mxfp4:
            yield fill(view, "moe_runner_backend", "triton", "AITER has no runner for these experts")
    elif is_musa(facts) and switch(facts, "SGLANG_DEEPEP_BF16_DISPATCH"):
        yield fill(view, "moe_runner_backend", "deep_gemm", "tokens are dispatched in bfloat16")
    elif single and has_library(facts, "triton_kernels") and not (is_cpu(facts) and has_amx(facts)):
        new_driver = is_blackwell(facts) and version_at_least(facts.driver_version, 595)
        yield fill(
            view,
            "moe_runner_backend",
            "triton" if new_driver else "triton_kernel",
            "the packed kernels fail under this driver" if new_driver else "the packed kernels keep four bits",
        )


@rule(
    stage="model",
    architectures=GPT_OSS,
    reads=(
        "attention_backend",
        "prefill_attention_backend",
        "decode_attention_backend",
        "moe_runner_backend",
        "ep_size",
    ),
    after=("gpt_oss_experts",),
    before=("state_cache",),
)
def gpt_oss_limits(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Attention without sinks gives wrong answers, and the packed runner holds all experts on every rank."""
    yield require(
        uses_mlx(facts) or all(backend in _WITH_SINKS for backend in phase_backends(view)),
        "the model attends with sinks",
        fix=f"use one of {', '.join(_WITH_SINKS)}",
        fields=("attention_backend", "prefill_attention_backend", "decode_attention_backend"),
        kind="AssertionError",
    )
    yield require(
        view.moe_runner_backend != "triton_kernel" or view.ep_size == 1,
        "the packed runner holds all experts on every rank",
        fields=("moe_runner_backend", "ep_size"),
        kind="AssertionError",
    )


RULES = in_order(sink_attention, gpt_oss_experts, gpt_oss_limits)
