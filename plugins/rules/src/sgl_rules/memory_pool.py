"""The KV cache: pages, dtypes, pools without a cache, host tiers, unified pools."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, suggest

from .asking import fill, in_order, phase_backends, uses_mla
from .graph_plan import DISABLED, plan_of, with_phase
from .machine import is_blackwell, is_cuda, is_musa, is_rocm, is_sm100, is_sm120, switch

_FP4_POOL = ("nvfp4", "fp4_mx_block16")
_FP4_BACKENDS = {
    # (latent attention, prefill on fa4): backends that read FP4 pages
    (True, True): ("cutlass_mla", "flashinfer", "trtllm_mla"),
    (True, False): ("cutlass_mla", "flashinfer", "trtllm_mla"),
    (False, True): ("triton", "torch_native", "flex_attention"),
    (False, False): ("triton", "torch_native", "flex_attention", "trtllm_mha"),
}


@rule(
    stage="sources",
    reads=("hicache_ratio", "disaggregation_mode", "hicache_host_memory_mode"),
    writes=("hicache_ratio",),
    before=("media_processing",),
)
def hicache_ratio_default(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The host tier holds twice the device's pages, or a fifth more where it is only a buffer."""
    if view.hicache_ratio is None and view.disaggregation_mode != "decode":
        buffer = view.hicache_host_memory_mode == "buffer_only"
        yield suggest(
            "hicache_ratio",
            1.2 if buffer else 2.0,
            "host memory only stages pages" if buffer else "host memory is cheaper than device memory",
        )


def prefill_only_checks(view: View) -> Iterator[Declaration]:
    """What serving without a KV cache needs; nothing may read pages that are not there."""
    for condition, because, name in (
        (view.is_embedding, "only embedding requests never read their KV again", "is_embedding"),
        (view.kv_cache_dtype not in _FP4_POOL, "FP4 pages are allocated by a pool of their own", "kv_cache_dtype"),
        (view.kv_cache_dtype != "mxfp8", "MXFP8 pages keep scales in a pool of their own", "kv_cache_dtype"),
        (view.chunked_prefill_size == -1, "a later chunk would read an earlier one's pages", "chunked_prefill_size"),
        (view.disable_radix_cache, "the prefix cache would hand out pages without content", "disable_radix_cache"),
        (view.attn_cp_size <= 1, "context parallelism goes through the pages", "attn_cp_size"),
        (not view.enable_prefill_cp, "context parallelism goes through the pages", "enable_prefill_cp"),
        (not view.enable_hisparse, "HiSparse has pools of its own", "enable_hisparse"),
    ):
        yield require(bool(condition), because, fields=("prefill_only_disable_kv_cache", name))


@rule(
    stage="sources",
    reads=(
        "prefill_only_disable_kv_cache",
        "is_embedding",
        "attn_cp_size",
        "chunked_prefill_size",
        "disable_radix_cache",
        "enable_hisparse",
        "enable_prefill_cp",
        "kv_cache_dtype",
    ),
    after=("prefill_cp_flags",),
)
def prefill_only_request(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Serving without a KV cache is for single-pass embedding."""
    if view.prefill_only_disable_kv_cache:
        yield from prefill_only_checks(view)


@rule(
    stage="attention",
    reads=("kv_cache_dtype", "attention_backend", "prefill_attention_backend", "decode_attention_backend"),
    after=("linear_attention_checks",),
)
def fp4_pages(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """FP4 and MXFP8 pages are read by few kernels, on NVIDIA GPUs only."""
    dtype = view.kv_cache_dtype
    if dtype in _FP4_POOL:
        yield require(is_cuda(facts), "FP4 pages are for NVIDIA GPUs", fields=("kv_cache_dtype",), kind="RuntimeError")
        yield require(
            dtype != "nvfp4" or is_sm100(facts) or is_sm120(facts),
            "NVFP4 pages need a Blackwell GPU",
            fix="use --kv-cache-dtype fp4_mx_block16",
            fields=("kv_cache_dtype",),
            kind="RuntimeError",
        )
        prefill, decode = phase_backends(view)
        if prefill == decode or prefill == "fa4":
            allowed = _FP4_BACKENDS[uses_mla(model), prefill == "fa4"]
            yield require(
                (decode if prefill == "fa4" else view.attention_backend) in allowed,
                f"FP4 pages are read by {', '.join(allowed)} for this model",
                fields=("kv_cache_dtype", "attention_backend"),
                kind="AssertionError",
            )
    yield require(
        dtype != "mxfp8" or is_blackwell(facts),
        "MXFP8 pages need the block-scaled operands of Blackwell",
        fields=("kv_cache_dtype",),
    )


@rule(stage="attention", reads=("page_size",), writes=("page_size",), after=("fp4_pages",))
def page_size_default(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """One token a page, unless the device's kernels read whole pages."""
    if view.page_size is not None:
        return
    if is_rocm(facts) and facts.env.get("SGLANG_AITER_KV_CACHE_LAYOUT", "nhd").lower() == "vectorized_5d":
        yield suggest("page_size", 64, "the vectorized layout packs 64 tokens")
    elif is_musa(facts):
        yield suggest("page_size", 64, "the device's kernels read pages of 64 tokens")
    else:
        yield suggest("page_size", 1, "single-token pages share prefixes best")


@rule(
    stage="attention",
    reads=(
        "prefill_only_disable_kv_cache",
        "prefill_attention_backend",
        "attention_backend",
        "decode_attention_backend",
    ),
    after=("multi_item_scoring",),
)
def prefill_only_backend(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Only the FlashAttention kernels attend without writing pages."""
    if view.prefill_only_disable_kv_cache:
        yield require(
            phase_backends(view)[0] in ("fa3", "fa4"),
            "only fa3 and fa4 attend to keys that are not in the cache",
            fields=("prefill_only_disable_kv_cache", "attention_backend"),
        )


@rule(
    stage="attention",
    reads=(
        "enable_hierarchical_cache",
        "hicache_mem_layout",
        "hicache_io_backend",
        "hicache_storage_backend",
        "dcp_size",
        "disaggregation_decode_enable_offload_kvcache",
        "disaggregation_decode_retraction_backup",
        "disaggregation_mode",
        "enable_hisparse",
        "enable_lmcache",
        "hicache_host_memory_mode",
        "hicache_ratio",
        "hicache_size",
        "hicache_write_policy",
        "speculative_algorithm",
    ),
    writes=("hicache_mem_layout", "hicache_io_backend"),
    after=("prefill_only_backend",),
)
def hicache_layout(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The host tier's layout and its copies must match each other and the storage."""
    backup = view.disaggregation_mode == "decode" and view.disaggregation_decode_retraction_backup in (
        None,
        "host_pool",
    )
    if not (view.enable_hierarchical_cache or view.disaggregation_decode_enable_offload_kvcache or backup):
        return
    yield from _host_memory_mode(view)
    layout, copies = view.hicache_mem_layout, view.hicache_io_backend
    if layout == "page_first_direct" and copies == "kernel":
        copies = "direct"
        yield force("hicache_io_backend", copies, "this layout is copied page by page, not by a kernel")
    if layout == "page_first" and copies == "direct":
        layout = "page_first_direct"
        yield force("hicache_mem_layout", layout, "direct copies move whole pages")
    if view.hicache_storage_backend == "mooncake" and layout == "layer_first":
        first = {"direct": "page_first_direct", "kernel": "page_first"}.get(copies, layout)
        if first != layout:
            yield force("hicache_mem_layout", first, "mooncake stores pages, not layers")
    if view.dcp_size > 1 and view.enable_hierarchical_cache:
        for condition, name in (
            (view.hicache_storage_backend is None, "hicache_storage_backend"),
            (view.speculative_algorithm in (None, "DSPARK"), "speculative_algorithm"),
            (not view.enable_lmcache, "enable_lmcache"),
            (not view.enable_hisparse, "enable_hisparse"),
            (uses_mla(model), "attention_backend"),
        ):
            yield require(
                bool(condition),
                "under decode context parallelism the host tier translates latent pages of the model only",
                fields=("dcp_size", "enable_hierarchical_cache", name),
                kind="NotImplementedError",
            )


def _host_memory_mode(view: View) -> Iterator[Declaration]:
    mode = view.hicache_host_memory_mode
    yield require(mode in ("cache", "buffer_only"), f"no mode {mode!r}", fields=("hicache_host_memory_mode",))
    yield require(
        view.hicache_size > 0 or view.hicache_ratio is not None or view.disaggregation_mode == "decode",
        "the host tier needs a size",
        fix="give --hicache-size or --hicache-ratio",
        fields=("hicache_size", "hicache_ratio"),
    )
    if mode == "cache":
        return
    for condition, name in (
        (view.hicache_storage_backend is not None, "hicache_storage_backend"),
        (view.hicache_write_policy != "write_back", "hicache_write_policy"),
        (view.disaggregation_mode != "decode", "disaggregation_mode"),
    ):
        yield require(
            condition,
            "a host buffer stages pages on their way to storage, written through, on servers that prefill",
            fields=("hicache_host_memory_mode", name),
        )


@rule(
    stage="features",
    reads=(
        "enable_hierarchical_cache",
        "disable_radix_cache",
        "swa_full_tokens_ratio",
        "disaggregation_mode",
        "dcp_size",
        "disable_priority_preemption",
        "disaggregation_decode_enable_offload_kvcache",
        "disaggregation_decode_retraction_backup",
        "enable_priority_scheduling",
        "hicache_storage_backend",
    ),
    after=("worker_environment",),
)
def cache_exclusions(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Caches that exclude each other."""
    backup = view.disaggregation_decode_retraction_backup == "host_pool"
    if backup:
        for condition, name in (
            (view.disaggregation_mode == "decode", "disaggregation_mode"),
            (view.dcp_size <= 1, "dcp_size"),
            (not view.enable_priority_scheduling or view.disable_priority_preemption, "enable_priority_scheduling"),
        ):
            yield require(
                bool(condition),
                "retracted requests are backed up on plain decode servers",
                fields=("disaggregation_decode_retraction_backup", name),
            )
    yield require(
        not (view.enable_hierarchical_cache and view.disable_radix_cache),
        "the host tier extends the prefix cache, which is off",
        fix="drop --enable-hierarchical-cache or --disable-radix-cache",
        fields=("enable_hierarchical_cache", "disable_radix_cache"),
    )
    if view.disaggregation_decode_enable_offload_kvcache:
        for condition, name in (
            (view.disaggregation_mode == "decode", "disaggregation_mode"),
            (view.hicache_storage_backend is not None, "hicache_storage_backend"),
            (not backup, "disaggregation_decode_retraction_backup"),
        ):
            yield require(
                condition,
                "decode servers offload to a storage, through the one host pool",
                fields=("disaggregation_decode_enable_offload_kvcache", name),
            )
    yield require(
        0 < view.swa_full_tokens_ratio <= 1.0,
        "sliding-window layers hold a share of the tokens",
        fix="use a ratio in (0, 1]",
        fields=("swa_full_tokens_ratio",),
    )


_UNIFIED_MLA = {"triton", "fa3", "trtllm_mla", "flashinfer", "cutedsl_mla", "tokenspeed_mla", "flashmla"}
_UNIFIED_MHA = {"triton", "fa3", "fa4", "flashinfer", "trtllm_mha"}
_UNIFIED_VERIFY = {"triton", "trtllm_mla", "cutedsl_mla", "tokenspeed_mla"}


@rule(
    stage="features",
    reads=(
        "enable_unified_memory",
        "enable_page_major_kv_layout",
        "attention_backend",
        "linear_attn_backend",
        "decode_attention_backend",
        "linear_attn_decode_backend",
        "linear_attn_prefill_backend",
        "mamba_backend",
        "prefill_attention_backend",
    ),
    writes=("enable_page_major_kv_layout",),
    after=("cache_exclusions",),
)
def page_major_layout(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """One pool for KV and state lays pages out first, which some kernels can read."""
    if view.enable_unified_memory and not view.enable_page_major_kv_layout:
        yield force("enable_page_major_kv_layout", True, "a unified pool is laid out by pages")
    if not (view.enable_unified_memory or view.enable_page_major_kv_layout):
        return
    mla = uses_mla(model)
    backends = {name for name in phase_backends(view) if name is not None}
    decode = view.linear_attn_decode_backend or view.linear_attn_backend
    prefill = view.linear_attn_prefill_backend or view.linear_attn_backend
    more = {"cutedsl", "helion"} if mla else set()
    uniform = model.head_dim == model.v_head_dim and model.swa_head_dim == model.swa_v_head_dim
    for condition, because, name in (
        (view.enable_unified_memory, "pages first is a layout of the unified pool", "enable_page_major_kv_layout"),
        (mla or uniform, "keys and values differ in width", "enable_unified_memory"),
        (backends <= (_UNIFIED_MLA if mla else _UNIFIED_MHA), "the kernel reads another layout", "attention_backend"),
        (decode in {"triton", "flashinfer", None} | more, "its state has another layout", "linear_attn_decode_backend"),
        (prefill in {"triton", "flashkda", None} | more, "its state has another layout", "linear_attn_prefill_backend"),
        (view.mamba_backend in (None, "triton"), "its state has another layout", "mamba_backend"),
    ):
        yield require(bool(condition), because, fields=("enable_unified_memory", name), kind="AssertionError")


@rule(
    stage="features",
    reads=(
        "enable_unified_memory",
        "disaggregation_mode",
        "speculative_algorithm",
        "cuda_graph_config",
        "attention_backend",
        "cuda_graph_backend_prefill",
        "dcp_size",
        "decode_attention_backend",
        "disaggregation_transfer_backend",
        "enable_hierarchical_cache",
        "enable_hisparse",
        "enable_lmcache",
        "pp_size",
        "prefill_attention_backend",
        "speculative_eagle_topk",
    ),
    writes=("cuda_graph_config",),
    after=("page_major_layout",),
)
def unified_pool(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """What the unified pool does not serve yet."""
    if not view.enable_unified_memory:
        return
    spec, split = view.speculative_algorithm, view.disaggregation_mode != "null"
    backends = {name for name in phase_backends(view) if name is not None}
    for condition, name in (
        (not split or view.disaggregation_transfer_backend == "mooncake", "disaggregation_transfer_backend"),
        (not split or view.pp_size == 1, "pp_size"),
        (not split or not switch(facts, "SGLANG_DISABLE_LAZY_COMPACTION"), "disaggregation_mode"),
        (not split or not view.enable_hisparse, "enable_hisparse"),
        (spec in (None, "DSPARK"), "speculative_algorithm"),
        (spec != "DSPARK" or view.speculative_eagle_topk in (None, 1), "speculative_eagle_topk"),
        (spec != "DSPARK" or backends <= _UNIFIED_VERIFY, "attention_backend"),
        (not (view.enable_hierarchical_cache or view.enable_lmcache), "enable_hierarchical_cache"),
        (view.dcp_size == 1, "dcp_size"),
    ):
        yield require(
            bool(condition),
            "slots of the unified pool are virtual, and this part works with physical ones",
            fields=("enable_unified_memory", name),
            kind="AssertionError",
        )
    plan = plan_of(view, facts)
    if plan["prefill"]["backend"] != DISABLED:
        yield require(
            view.cuda_graph_backend_prefill is None,
            "captured prefill does not translate the pool's virtual slots",
            fix="add --cuda-graph-backend-prefill disabled",
            fields=("enable_unified_memory", "cuda_graph_backend_prefill"),
        )
        yield fill(
            view,
            "cuda_graph_config",
            with_phase(plan, "prefill", backend=DISABLED),
            "captured prefill does not translate the pool's virtual slots",
        )


RULES = in_order(
    hicache_ratio_default,
    prefill_only_request,
    fp4_pages,
    page_size_default,
    prefill_only_backend,
    hicache_layout,
    cache_exclusions,
    page_major_layout,
    unified_pool,
)
