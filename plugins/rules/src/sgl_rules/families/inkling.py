"""Inkling: short convolutions beside windowed attention, captured prefill. Muse Glimmer: small captured prefill, FP4."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, rule, set_env, suggest

from ..asking import backends_unset, fill, in_order
from ..machine import is_sm100, is_sm120

INKLING = ("InklingForConditionalGeneration", "InklingForConditionalGenerationMTP")
MUSE = ("MuseGlimmerForCausalLM", "MuseGlimmerForConditionalGeneration")


@rule(
    stage="platform",
    architectures=INKLING,
    reads=("cuda_graph_backend_prefill", "disable_prefill_cuda_graph"),
    writes=("cuda_graph_backend_prefill",),
)
def full_prefill_graph(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Inkling's prefill is captured whole."""
    if view.cuda_graph_backend_prefill is None and not view.disable_prefill_cuda_graph:
        yield suggest("cuda_graph_backend_prefill", "full", "its many small convolutions are bound by launches")


@rule(
    stage="platform",
    architectures=MUSE,
    reads=("cuda_graph_max_bs_prefill",),
    writes=("cuda_graph_max_bs_prefill",),
)
def small_prefill_graph(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Muse Glimmer gains from captured prefill up to 512 tokens."""
    if view.cuda_graph_max_bs_prefill is None:
        yield suggest("cuda_graph_max_bs_prefill", 512, "longer prefills are bound by arithmetic")


@rule(
    stage="model",
    architectures=MUSE,
    reads=("fp4_gemm_runner_backend",),
    writes=("fp4_gemm_runner_backend",),
    before=("state_cache",),
)
def muse_fp4(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Muse Glimmer's FP4 layers run in Marlin on workstation Blackwell."""
    if is_sm120(facts) and view.fp4_gemm_runner_backend == "auto":
        yield fill(view, "fp4_gemm_runner_backend", "marlin", "the exact product on this GPU")


@rule(
    stage="model",
    architectures=INKLING,
    reads=(
        "swa_full_tokens_ratio",
        "mamba_full_memory_ratio",
        "mamba_radix_cache_strategy",
        "attention_backend",
        "decode_attention_backend",
        "prefill_attention_backend",
    ),
    writes=("swa_full_tokens_ratio", "mamba_full_memory_ratio", "mamba_radix_cache_strategy", "attention_backend"),
    before=("state_cache",),
)
def inkling_memory(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Windows and convolution states are small: a tenth of the memory each, cached with spare slots."""
    for field, default in (("swa_full_tokens_ratio", 0.8), ("mamba_full_memory_ratio", 0.9)):
        if getattr(view, field) == default:
            yield fill(view, field, 0.1, "windows and states are small beside the keys")
    if view.mamba_radix_cache_strategy == "auto":
        yield fill(view, "mamba_radix_cache_strategy", "extra_buffer", "states are copied while decoding goes on")
    if backends_unset(view):
        sm100 = is_sm100(facts)
        yield suggest("attention_backend", "fa4" if sm100 else "triton", "the kernel for its relative positions here")
    yield set_env("SGLANG_ENABLE_UNIFIED_RADIX_TREE", "True", "windows, states and keys are cached in one tree")


RULES = in_order(full_prefill_graph, small_prefill_graph, muse_fp4, inkling_memory)
