"""MiniMax M2 and M3: TF32 matrix products, sparse attention on large pages, MXFP8 experts."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, rule, set_env, suggest

from ..asking import backends_unset, fill, in_order, quantization_unset
from ..machine import is_rocm, is_sm90, is_sm100, switch
from ..quantization import served_method

M2 = ("MiniMaxM2ForCausalLM",)
M3 = ("MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration")


@rule(
    stage="model",
    architectures=M2,
    reads=("moe_runner_backend", "quantization", "enable_tf32_matmul"),
    writes=("enable_tf32_matmul", "moe_runner_backend"),
    before=("state_cache",),
)
def m2_experts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The router multiplies in TF32; NVFP4 experts have a routed runner on SM100."""
    if not view.enable_tf32_matmul:
        yield force("enable_tf32_matmul", True, "the router's product is in single precision")
    nvfp4 = served_method(view.quantization, facts, model) == "modelopt_fp4"
    if is_sm100(facts) and view.moe_runner_backend == "auto" and nvfp4:
        yield fill(view, "moe_runner_backend", "flashinfer_trtllm_routed", "the runner for NVFP4 experts on this GPU")


@rule(
    stage="model",
    architectures=M3,
    reads=("attention_backend", "prefill_attention_backend", "decode_attention_backend", "kv_cache_dtype", "page_size"),
    writes=("attention_backend", "page_size"),
    before=("state_cache",),
)
def m3_attention(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Dense layers use the GPU's FlashAttention; sparse layers share its pages of 128."""
    backend, because = view.attention_backend, "the kernel for the dense layers on this GPU"
    unset = backends_unset(view)
    large: tuple[str, ...] = ()
    chosen = None
    if is_rocm(facts):
        chosen = "triton"
    elif is_sm100(facts):
        fp8 = view.kv_cache_dtype == "fp8_e4m3" and not switch(facts, "SGLANG_DISABLE_M3_FP8_ATTN_GEMM")
        chosen, large = ("trtllm_mha" if fp8 else "fa4"), ("fa4", "trtllm_mha")
    elif is_sm90(facts):
        chosen, large = "fa3", ("fa3",)
    if unset and chosen is not None:
        backend = chosen
        yield suggest("attention_backend", chosen, because)
    if view.page_size is None and backend in large:
        yield suggest("page_size", 128, "sparse layers select blocks of 128 tokens")


@rule(
    stage="model",
    architectures=M3,
    reads=("quantization", "moe_runner_backend"),
    writes=("quantization", "moe_runner_backend"),
    after=("m3_attention",),
    before=("state_cache",),
)
def m3_experts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The runner for the experts' format; plain experts are multiplied in Triton."""
    method, runner = view.quantization, view.moe_runner_backend
    if quantization_unset(view) and model.quant_method is not None:
        method = model.quant_method
        yield suggest("quantization", method, "the checkpoint says so")
    chosen = None
    if is_rocm(facts) and method == "mxfp8":
        chosen = "triton"
    elif is_sm100(facts) and not is_rocm(facts):
        chosen = {"mxfp8": "deep_gemm", "modelopt_mixed": "flashinfer_trtllm_routed"}.get(method or "")
    if runner == "auto" and chosen is not None:
        yield fill(view, "moe_runner_backend", chosen, "the runner for the experts' format here")
    elif method is None and runner in ("auto", "deep_gemm"):
        yield fill(view, "moe_runner_backend", "triton", "the other runners do not apply the model's activation")


@rule(
    stage="model",
    architectures=M3,
    platforms=("rocm",),
    reads=("enable_aiter_allreduce_fusion", "ep_size", "moe_a2a_backend", "disable_custom_all_reduce"),
    writes=("enable_aiter_allreduce_fusion", "disable_custom_all_reduce"),
    after=("m3_experts",),
    before=("state_cache",),
)
def m3_rocm_allreduce(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """On AMD GPUs only the fused all-reduce is proven for this model."""
    if "USE_ROCM_AITER_ROPE_BACKEND" not in facts.env:
        yield set_env("USE_ROCM_AITER_ROPE_BACKEND", "0", "AITER's rotary kernel takes whole heads")
    fused = view.enable_aiter_allreduce_fusion
    if fused and view.ep_size > 1 and view.moe_a2a_backend == "none":
        fused = False
        yield force("enable_aiter_allreduce_fusion", False, "experts are summed outside the fused all-reduce")
    allowed = switch(facts, "SGLANG_M3_ALLOW_CUSTOM_AR")
    if not fused and not allowed and not view.disable_custom_all_reduce:
        yield force("disable_custom_all_reduce", True, "the custom all-reduce hangs with this model's streams")


RULES = in_order(m2_experts, m3_attention, m3_experts, m3_rocm_allreduce)
