"""What attention kernels accept: page sizes, cache dtypes, machines, phases; and scoring with custom masks."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, suggest

from .asking import any_phase, fill, in_order, main_or_decode, phase_backends, uses_mla
from .choices.query import pages_of
from .graph_plan import plan_of, without_graphs
from .machine import is_blackwell, is_sm90, is_sm100, is_sm120

_SNAPPING = (
    # (backend, where naming it counts); a later row sees what an earlier one chose
    ("flashmla", "main_or_decode"),
    ("cutlass_mla", "main_or_decode"),
    ("trtllm_mla", "main_or_decode"),
    ("tokenspeed_mla", "main_or_decode"),
    ("cutedsl_mla", "any"),
    ("trtllm_mha", "any_or_draft"),
    ("hpc_ops", "any"),
)


def _named(view: View, backend: str, where: str) -> bool:
    if where == "main_or_decode":
        return main_or_decode(view, backend)
    draft = where == "any_or_draft" and view.speculative_draft_attention_backend == backend
    return draft or any_phase(view, backend)


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
    page, by = view.page_size, ""
    for backend, where in _SNAPPING:
        if _named(view, backend, where):
            allowed, preferred = pages_of(view, backend)
            if allowed and page not in allowed:
                page, by = preferred, backend
    if by and page != view.page_size:
        allowed = pages_of(view, by)[0]
        yield fill(view, "page_size", page, f"{by} reads pages of {', '.join(map(str, allowed))} tokens")


@rule(
    stage="attention",
    reads=("kv_cache_dtype", "attention_backend", "decode_attention_backend", "prefill_attention_backend"),
    writes=("prefill_attention_backend",),
    after=("kernel_pages",),
)
def latent_kernel_limits(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Latent-attention kernels of Blackwell: where they run and which cache dtypes they read."""
    dtype = view.kv_cache_dtype
    fields = ("attention_backend", "decode_attention_backend", "kv_cache_dtype")
    for backend, dtypes in (
        ("trtllm_mla", ("fp8_e4m3", "fp4_e2m1", "bf16", "auto")),
        ("tokenspeed_mla", ("fp8_e4m3",)),
    ):
        if main_or_decode(view, backend):
            yield require(is_blackwell(facts), f"{backend} is written for Blackwell", fields=fields[:2])
            yield require(dtype in dtypes, f"{backend} reads pages of {', '.join(dtypes)}", fields=fields)
    if not any_phase(view, "cutedsl_mla"):
        return
    yield require(
        view.prefill_attention_backend != "cutedsl_mla",
        "cutedsl_mla is a decode kernel",
        fix="leave --prefill-attention-backend away",
        fields=("prefill_attention_backend",),
        kind="AssertionError",
    )
    yield require(is_sm100(facts), "cutedsl_mla is written for SM100", fields=fields[:2])
    yield require(
        dtype in ("fp8_e4m3", "bf16", "bfloat16", "auto"), "cutedsl_mla reads FP8 or bfloat16 pages", fields=fields
    )
    if view.prefill_attention_backend is None:
        yield suggest("prefill_attention_backend", "trtllm_mla", "cutedsl_mla decodes only")


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
