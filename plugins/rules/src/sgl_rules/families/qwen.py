"""Qwen3 MoE, Qwen3-Next, Qwen3.5, Qwen3-VL and the Intern S2 models built on them."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, suggest

from ..asking import extra_buffer, fill, in_order, quantization_unset
from ..attention_choice import default_backend
from ..machine import is_rocm, is_sm100, switch

HYBRID = (
    "InternS2MobiusForConditionalGeneration",
    "InternS2PreviewForConditionalGeneration",
    "Qwen3NextForCausalLM",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration",
)
MOE = (
    "InternS2PreviewForConditionalGeneration",
    "Qwen3MoeForCausalLM",
    "Qwen3NextForCausalLM",
    "Qwen3VLMoeForConditionalGeneration",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration",
)
MOBIUS = ("InternS2MobiusForConditionalGeneration",)


@rule(
    stage="model",
    architectures=HYBRID,
    reads=(
        "attention_backend",
        "mamba_radix_cache_strategy",
        "disable_radix_cache",
        "speculative_algorithm",
        "page_size",
        "speculative_eagle_topk",
        "tp_size",
    ),
    writes=("attention_backend", "page_size"),
    before=("state_cache",),
)
def hybrid_attention(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """On SM100 the paged kernel is used only where the cached state allows pages."""
    if not is_sm100(facts) or view.attention_backend is not None:
        return
    paged = extra_buffer(view) or view.disable_radix_cache or view.speculative_algorithm is not None
    fast = paged and default_backend(view, facts, model)[0] == "trtllm_mha"
    backend = "trtllm_mha" if fast else "triton"
    page = 64 if fast else 1
    because = "the state is cached page by page" if fast else "the state is cached per token"
    yield suggest("attention_backend", backend, because)
    if view.page_size != page:
        yield force("page_size", page, because)


@rule(
    stage="model",
    architectures=MOE,
    reads=("quantization", "moe_a2a_backend", "moe_runner_backend"),
    writes=("quantization", "moe_runner_backend"),
    before=("state_cache",),
)
def qwen_experts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """On SM100 FP8, NVFP4 and plain experts are multiplied by the TensorRT-LLM runner."""
    if not is_sm100(facts):
        return
    method = view.quantization
    if quantization_unset(view) and model.quant_method is not None:
        method = model.quant_method
        yield suggest("quantization", method, "the checkpoint says so")
    fits = method in (None, "fp8", "modelopt_fp4")
    if fits and view.moe_a2a_backend == "none" and view.moe_runner_backend == "auto":
        yield fill(view, "moe_runner_backend", "flashinfer_trtllm", "the fastest runner for these experts on this GPU")


@rule(
    stage="model",
    architectures=MOBIUS,
    reads=("pp_size", "ep_size", "moe_runner_backend"),
    writes=("moe_runner_backend",),
    before=("state_cache",),
)
def mobius_experts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Mobius shares experts between layers: one pipeline stage, experts not spread, packed Triton kernels."""
    for name in ("pp_size", "ep_size"):
        yield require(getattr(view, name) == 1, "layers share their experts", fields=(name,))
    if view.moe_runner_backend == "auto":
        yield fill(view, "moe_runner_backend", "triton_kernel", "it multiplies experts shared between layers")


@rule(
    stage="model",
    architectures=("Qwen3VLForConditionalGeneration",),
    platforms=("rocm",),
    reads=("page_size",),
    writes=("page_size",),
    before=("state_cache",),
)
def qwen_vl_unified_pages(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """AITER's unified attention reads pages of 16."""
    if is_rocm(facts) and switch(facts, "SGLANG_USE_AITER_UNIFIED_ATTN") and view.page_size is None:
        yield suggest("page_size", 16, "AITER's unified attention reads pages of 16 tokens")


RULES = in_order(mobius_experts, hybrid_attention, qwen_experts, qwen_vl_unified_pages)
