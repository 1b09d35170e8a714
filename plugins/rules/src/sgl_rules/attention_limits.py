"""What attention kernels accept: page sizes, cache dtypes, machines, phases; and scoring with custom masks."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, suggest
from sgl_core.api.specs import AttentionSpec

from .asking import any_phase, fill, in_order, main_or_decode, phase_backends, uses_mla
from .choices.query import attention_spec
from .graph_plan import plan_of, without_graphs
from .machine import is_blackwell, is_sm90, is_sm100, is_sm120

_FIRST = ("flashmla", "cutlass_mla", "trtllm_mla", "tokenspeed_mla", "cutedsl_mla", "trtllm_mha", "hpc_ops")
"""The order in which page sizes are settled where two backends are named; others follow by name."""

_STRICT = ("trtllm_mla", "tokenspeed_mla", "cutedsl_mla")
"""Backends that fail at run time, not at load, where their machine or cache dtype is wrong."""


def _paged(view: View) -> list[AttentionSpec]:
    """The named backends that read pages of certain sizes; some bind the size only where they decode."""
    decode = {view.attention_backend, view.decode_attention_backend}
    prefill = {view.prefill_attention_backend, view.speculative_draft_attention_backend}
    specs = [attention_spec(view, name) for name in decode | prefill]
    bound = [
        spec
        for spec in specs
        if spec is not None and spec.page_sizes and (spec.name in decode or "decode_pages" not in spec.flags)
    ]
    return sorted(bound, key=lambda spec: (_FIRST.index(spec.name) if spec.name in _FIRST else len(_FIRST), spec.name))


@rule(
    stage="attention",
    reads=(
        "page_size",
        "attention_backend",
        "decode_attention_backend",
        "prefill_attention_backend",
        "speculative_draft_attention_backend",
    ),
    writes=("page_size",),
    after=("uncaptured_backends",),
)
def kernel_pages(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Kernels that read pages of certain sizes get the nearest of theirs."""
    page, by = view.page_size, None
    for spec in _paged(view):
        if page not in spec.page_sizes:
            page, by = spec.preferred_page_size or spec.page_sizes[0], spec
    if by is not None and page != view.page_size:
        yield fill(view, "page_size", page, f"{by.name} reads pages of {', '.join(map(str, by.page_sizes))} tokens")


@rule(
    stage="attention",
    reads=("kv_cache_dtype", "attention_backend", "decode_attention_backend", "prefill_attention_backend"),
    writes=("prefill_attention_backend",),
    after=("kernel_pages",),
)
def latent_kernel_limits(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Latent-attention kernels of Blackwell: phases, machines and the cache dtypes they read."""
    dtype = view.kv_cache_dtype
    for name in _STRICT:
        spec = attention_spec(view, name)
        decodes_only = spec is not None and "prefill" not in spec.phases
        if spec is None or not (any_phase(view, name) if decodes_only else main_or_decode(view, name)):
            continue
        yield require(
            not decodes_only or view.prefill_attention_backend != name,
            f"{name} is a decode kernel",
            fix="leave --prefill-attention-backend away",
            fields=("prefill_attention_backend",),
            kind="AssertionError",
        )
        lowest, highest = spec.arch or (0, 999)
        yield require(
            is_blackwell(facts) and lowest <= facts.arch <= highest,
            f"{name} is written for Blackwell GPUs from SM{lowest} to SM{highest}",
            fields=("attention_backend", "decode_attention_backend"),
        )
        yield require(
            dtype in spec.kv_dtypes,
            f"{name} reads pages of {', '.join(sorted(spec.kv_dtypes))}",
            fields=("attention_backend", "decode_attention_backend", "kv_cache_dtype"),
        )
        if decodes_only and view.prefill_attention_backend is None:
            yield suggest("prefill_attention_backend", "trtllm_mla", f"{name} decodes only")


@rule(
    stage="attention",
    reads=(
        "prefill_attention_backend",
        "decode_attention_backend",
        "attention_backend",
        "kv_cache_dtype",
        "attn_cp_size",
        "enable_prefill_context_parallel",
    ),
    after=("latent_kernel_limits",),
)
def phase_kernel_checks(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The TensorRT-LLM kernel for plain attention: machines, dtypes and context parallelism per phase."""
    prefill, decode = phase_backends(view)
    known = is_sm90(facts) or is_sm100(facts) or is_sm120(facts)
    fields = ("prefill_attention_backend", "decode_attention_backend", "attention_backend")
    if "trtllm_mha" in (prefill, decode):
        yield require(known, "trtllm_mha is written for Hopper and Blackwell", fields=fields)
    if prefill != "trtllm_mha":
        return
    skipping = float(facts.env.get("SGLANG_SKIP_SOFTMAX_PREFILL_THRESHOLD_SCALE_FACTOR") or 0)
    yield require(
        not is_sm120(facts) or (view.kv_cache_dtype != "fp8_e4m3" and skipping <= 0),
        "its prefill kernel for this GPU reads neither FP8 pages nor skips softmax blocks",
        fields=(*fields, "kv_cache_dtype"),
    )
    yield require(
        is_sm100(facts) or not (view.enable_prefill_context_parallel or view.attn_cp_size > 1),
        "its prefill kernel for this GPU does not mask context shards",
        fields=(*fields, "attn_cp_size"),
    )


@rule(
    stage="attention",
    reads=(
        "attention_backend",
        "decode_attention_backend",
        "prefill_attention_backend",
        "speculative_eagle_topk",
        "page_size",
    ),
    writes=("page_size",),
    after=("fa3_without_e5m2",),
)
def fa4_pages(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """FlashAttention 4 reads pages of 128 tokens on SM100."""
    chain = (view.speculative_eagle_topk or 0) <= 1
    if any_phase(view, "fa4") and not uses_mla(model) and is_sm100(facts) and chain and view.page_size != 128:
        yield force("page_size", 128, "fa4 loads pages of 128 tokens")


@rule(
    stage="attention",
    reads=("attention_backend", "decode_attention_backend", "prefill_attention_backend", "page_size"),
    writes=("page_size",),
    after=("tiles_missing",),
)
def intel_xpu_pages(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Intel's GPU kernel: latent attention in decode only, and its page sizes."""
    prefill, decode = phase_backends(view)
    mla = uses_mla(model)
    yield require(
        not mla or prefill != "intel_xpu",
        "intel_xpu attends to latent keys in decode only",
        fix="use --decode-attention-backend intel_xpu with --prefill-attention-backend triton",
        fields=("attention_backend", "prefill_attention_backend"),
    )
    allowed = (16, 32, 64, 128) if mla else (64, 128)
    if decode == "intel_xpu" and view.page_size not in allowed:
        yield fill(view, "page_size", 128, f"intel_xpu reads pages of {', '.join(map(str, allowed))} tokens")


@rule(
    stage="attention",
    reads=(
        "enable_mis",
        "attention_backend",
        "prefill_attention_backend",
        "decode_attention_backend",
        "chunked_prefill_size",
        "cuda_graph_config",
        "disable_radix_cache",
    ),
    writes=("cuda_graph_config", "disable_radix_cache", "chunked_prefill_size"),
    after=("grammar_default", "rocm_kv_splits"),
)
def multi_item_scoring(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Scoring several items in one prompt needs FlashInfer's custom masks over the whole prompt at once."""
    if not view.enable_mis:
        return
    because = "items are masked from each other over the whole prompt"
    plan = without_graphs(plan_of(view, facts))
    yield fill(view, "cuda_graph_config", plan, because)
    if not view.disable_radix_cache:
        yield force("disable_radix_cache", True, because)
    if view.chunked_prefill_size != -1:
        yield force("chunked_prefill_size", -1, because)
    yield require(
        phase_backends(view) == ("flashinfer", "flashinfer"),
        "only FlashInfer takes custom masks",
        fix="add --attention-backend flashinfer",
        fields=("enable_mis", "attention_backend"),
        kind="AssertionError",
    )


RULES = in_order(
    kernel_pages,
    latent_kernel_limits,
    phase_kernel_checks,
    fa4_pages,
    intel_xpu_pages,
    multi_item_scoring,
)
