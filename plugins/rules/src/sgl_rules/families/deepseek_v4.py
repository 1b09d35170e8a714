"""DeepSeek V4: compressed attention on pages of 256, FP4 experts, context parallelism by interleaving."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, set_env, suggest

from ..asking import fill, in_order
from ..machine import is_rocm, is_sm90, is_sm100, is_sm120, number, switch
from ..moe import has_nvfp4_experts

V4 = ("DeepseekV4ForCausalLM",)
_DISPATCHERS = ("none", "deepep", "megamoe", "mori")
_SM120_ENV = {
    "SGLANG_OPT_FP8_WO_A_GEMM": "False",
    "SGLANG_OPT_USE_TOPK_V2": "False",
    "SGLANG_OPT_USE_TILELANG_MHC_PRE": "False",
    "SGLANG_OPT_DEEPGEMM_HC_PRENORM": "False",
    "SGLANG_FP8_PAGED_MQA_LOGITS_TORCH": "True",
    "SGLANG_OPT_USE_TILELANG_INDEXER": "True",
}
_ROCM_ENV = {
    "SGLANG_OPT_DEEPGEMM_HC_PRENORM": "False",
    "SGLANG_OPT_FP8_WO_A_GEMM": "False",
    "SGLANG_OPT_USE_JIT_INDEXER_METADATA": "False",
    "SGLANG_OPT_USE_TOPK_V2": "True",
    "SGLANG_OPT_USE_AITER_INDEXER": "True",
    "SGLANG_OPT_USE_TILELANG_MHC_PRE": "False",
    "SGLANG_OPT_USE_TILELANG_MHC_POST": "False",
    "SGLANG_FP8_PAGED_MQA_LOGITS_TORCH": "True",
    "SGLANG_OPT_USE_MULTI_STREAM_OVERLAP": "False",
    "SGLANG_EAGER_INPUT_NO_COPY": "True",
}


def has_fp4_experts(facts: Facts, model: ModelInfo) -> bool:
    """Routed experts in MXFP4: said by config.json, seen in the weights, else assumed for this architecture."""
    method = model.quant_config.get("routed_experts_quant_method")
    if method is not None:
        return str(method) == "mxfp4"
    if model.expert_weight_dtype:
        return model.expert_weight_dtype in ("U8", "I8", "F4")
    return switch(facts, "SGLANG_DSV4_FP4_EXPERTS", default=True)


@rule(
    stage="model",
    architectures=V4,
    reads=("device", "swa_full_tokens_ratio", "moe_runner_backend", "moe_a2a_backend", "page_size"),
    writes=(
        "attention_backend",
        "prefill_attention_backend",
        "decode_attention_backend",
        "page_size",
        "swa_full_tokens_ratio",
        "moe_runner_backend",
    ),
    before=("state_cache",),
)
def v4_kernels(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Compressed attention has one backend; FP4 experts have their runner on NVIDIA GPUs since Hopper."""
    npu = view.device == "npu"
    because = "only this backend attends to compressed keys"
    fields = (
        ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
        if npu
        else ("attention_backend",)
    )
    for field in fields:
        if getattr(view, field) != "dsv4":
            yield force(field, "dsv4", because)
    page = 128 if npu else 256
    if view.page_size != page:
        yield force("page_size", page, "a page holds whole blocks of compressed keys")
    if view.swa_full_tokens_ratio == 0.8:
        yield fill(view, "swa_full_tokens_ratio", 0.1, "few tokens are kept uncompressed")
    if view.moe_runner_backend != "auto":
        return
    if has_nvfp4_experts(model):
        yield fill(view, "moe_runner_backend", "flashinfer_trtllm_routed", "the runner for NVFP4 experts")
    elif (
        view.device == "cuda"
        and not is_rocm(facts)
        and view.moe_a2a_backend == "none"
        and not switch(facts, "SGLANG_DSV4_FP4_DEQUANT")
        and has_fp4_experts(facts, model)
        and (is_sm90(facts) or is_sm100(facts) or is_sm120(facts))
    ):
        yield fill(view, "moe_runner_backend", "flashinfer_mxfp4", "the runner for MXFP4 experts")


@rule(
    stage="model",
    architectures=V4,
    reads=("kv_cache_dtype", "device", "max_running_requests", "speculative_algorithm", "speculative_eagle_topk"),
    writes=("kv_cache_dtype", "max_running_requests"),
    after=("v4_kernels",),
    before=("state_cache",),
)
def v4_cache(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Compressed keys are cached in FP8 (bfloat16 on NPUs), for 256 requests, drafted by chains only."""
    if is_rocm(facts):
        yield set_env("SGLANG_OPT_FLASHMLA_SPARSE_PREFILL", "False", "the sparse prefill kernel is NVIDIA's")
    asked = view.kv_cache_dtype
    dtype = "bfloat16" if view.device == "npu" else ("fp8_e4m3" if asked == "auto" else asked)
    yield require(
        dtype in ("fp8_e4m3", "bfloat16"),
        "compressed keys are cached in fp8_e4m3 or bfloat16",
        fields=("kv_cache_dtype",),
        kind="AssertionError",
    )
    if dtype != asked:
        yield fill(view, "kv_cache_dtype", dtype, "the format of compressed keys on this device")
    if view.max_running_requests is None:
        yield suggest("max_running_requests", 256, "each request keeps compression state")
    spec = view.speculative_algorithm
    yield require(
        spec in (None, "EAGLE", "DSPARK"),
        "the model is drafted by EAGLE or DSPARK",
        fields=("speculative_algorithm",),
        kind="AssertionError",
    )
    yield require(
        spec != "EAGLE" or view.speculative_eagle_topk == 1,
        "compression state follows one chain of drafts",
        fix="add --speculative-eagle-topk 1",
        fields=("speculative_algorithm", "speculative_eagle_topk"),
        kind="AssertionError",
    )


@rule(
    stage="model",
    architectures=V4,
    reads=("enable_prefill_cp", "cp_strategy", "tp_size", "dp_size", "moe_a2a_backend"),
    writes=(
        "enable_dsa_prefill_context_parallel",
        "enable_prefill_context_parallel",
        "dsa_prefill_cp_mode",
        "enable_dp_attention",
        "moe_dense_tp_size",
        "attn_cp_size",
    ),
    after=("v4_cache",),
    before=("state_cache",),
)
def v4_context_parallel(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Prompts are split by interleaving, within one machine and one replica."""
    if not view.enable_prefill_cp:
        return
    yield require(
        view.cp_strategy == "interleave",
        "blocks of compressed keys are shared by interleaving",
        fix="add --cp-strategy interleave",
        fields=("cp_strategy",),
    )
    for condition, because, name in (
        (view.dp_size == 1, "interleaved shards have one replica", "dp_size"),
        (view.tp_size <= 8, "context shards are exchanged within one machine", "tp_size"),
    ):
        yield require(condition, because, fields=("enable_prefill_cp", name), kind="AssertionError")
    yield require(
        view.moe_a2a_backend in _DISPATCHERS,
        f"context shards feed {', '.join(_DISPATCHERS)}",
        fields=("moe_a2a_backend",),
    )
    because = "under prefill context parallelism a replica is a context group"
    yield force("enable_dsa_prefill_context_parallel", True, because)
    yield force("enable_prefill_context_parallel", False, because)
    yield force("dsa_prefill_cp_mode", "round-robin-split", because)
    yield force("enable_dp_attention", True, because)
    yield force("moe_dense_tp_size", 1, because)
    yield force("attn_cp_size", view.tp_size // view.dp_size, because)
    yield set_env("SGLANG_OPT_FLASHMLA_SPARSE_PREFILL", "False", "the sparse prefill kernel reads whole prompts")


@rule(
    stage="model",
    architectures=V4,
    reads=(
        "moe_a2a_backend",
        "chunked_prefill_size",
        "tp_size",
        "dp_size",
        "attn_cp_size",
        "enable_dp_attention",
        "disaggregation_mode",
        "enable_dynamic_chunking",
        "enable_prefill_cp",
        "pp_size",
    ),
    after=("v4_context_parallel",),
    before=("state_cache",),
)
def v4_mega_moe_budget(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Fused dispatch works in buffers of a fixed number of tokens a rank."""
    dynamic = view.pp_size > 1 and view.enable_dynamic_chunking
    if view.moe_a2a_backend == "megamoe" and view.disaggregation_mode != "decode" and not dynamic:
        chunk = view.chunked_prefill_size or 0
        yield require(
            chunk > 0,
            "without chunks a rank's tokens have no bound",
            fix="set --chunked-prefill-size",
            fields=("chunked_prefill_size", "moe_a2a_backend"),
        )
        needed = _tokens_a_rank(view, chunk)
        limit = number(facts, "SGLANG_OPT_DEEPGEMM_MEGA_MOE_NUM_MAX_TOKENS_PER_RANK", 8192)
        yield require(
            0 < needed <= limit,
            f"a step of {needed} tokens a rank does not fit buffers of {limit}",
            fix="raise SGLANG_OPT_DEEPGEMM_MEGA_MOE_NUM_MAX_TOKENS_PER_RANK or lower --chunked-prefill-size",
            fields=("chunked_prefill_size", "moe_a2a_backend"),
        )
    if is_sm120(facts):
        for name, value in _SM120_ENV.items():
            yield set_env(name, value, "kernels that fit this GPU")
        if "SGLANG_OPT_FUSE_MHC_POST_PRE" not in facts.env:
            yield set_env("SGLANG_OPT_FUSE_MHC_POST_PRE", "True", "kernels that fit this GPU")
    elif is_rocm(facts):
        for name, value in _ROCM_ENV.items():
            yield set_env(name, value, "kernels that fit this GPU")


def _tokens_a_rank(view: View, chunk: int) -> int:
    """Tokens that one rank dispatches in the longest step, rounded up to its attention group."""
    context: int = view.attn_cp_size
    if view.enable_prefill_cp:
        return -(-chunk // context)
    replicas: int = view.dp_size if view.enable_dp_attention else 1
    local, group = chunk // replicas, max(int(view.tp_size) // replicas // context, 1)
    return -(-local // group) * group


RULES = in_order(v4_kernels, v4_cache, v4_context_parallel, v4_mega_moe_budget)
