"""Models with linear-attention or state-space layers: how their state is cached with prefixes, and its kernels."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, suggest

from .asking import algorithm, extra_buffer, fill, in_order
from .machine import has_library, is_cuda, is_musa, is_npu, is_rocm, is_sm100, is_xpu, version_at_least

_STATE_WITH_PREFIXES = frozenset(
    {
        "BailingMoeV2_5ForCausalLM",
        "BailingMoeV3ForCausalLM",
        "FalconH1ForCausalLM",
        "InternS2MobiusForConditionalGeneration",
        "InternS2PreviewForConditionalGeneration",
        "JetNemotronForCausalLM",
        "JetVLMForConditionalGeneration",
        "KimiK3ForConditionalGeneration",
        "KimiLinearForCausalLM",
        "Lfm2ForCausalLM",
        "Lfm2MoeForCausalLM",
        "MiniCPMV4_6ForConditionalGeneration",
        "NemotronHForCausalLM",
        "NemotronHPuzzleForCausalLM",
        "Qwen3NextForCausalLM",
        "Qwen3_5ForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5MoeForConditionalGeneration",
        "ZayaForCausalLM",
    }
)
"""Families whose recurrent state is kept beside cached prefixes (Granite hybrids too, where they have such layers)."""

_SPARE_SLOTS = frozenset(
    {
        "BailingMoeV2_5ForCausalLM",
        "BailingMoeV3ForCausalLM",
        "FalconH1ForCausalLM",
        "GraniteMoeHybridForCausalLM",
        "InternS2PreviewForConditionalGeneration",
        "KimiK3ForConditionalGeneration",
        "KimiLinearForCausalLM",
        "MiniCPMV4_6ForConditionalGeneration",
        "NemotronHForCausalLM",
        "NemotronHPuzzleForCausalLM",
        "Qwen3NextForCausalLM",
        "Qwen3_5ForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5MoeForConditionalGeneration",
    }
)
"""Families whose Triton kernels write snapshots of the state into spare slots while decoding."""

_STATE_CHUNK = 64
"""Tokens per chunk of the chunked linear-attention kernel, where the model names none."""


def caches_state(model: ModelInfo) -> bool:
    """Whether recurrent state is cached with prefixes."""
    if model.architecture == "GraniteMoeHybridForCausalLM":
        return "mamba" in model.layer_types
    return model.architecture in _STATE_WITH_PREFIXES


def has_spare_slots(view: View, model: ModelInfo) -> bool:
    """Whether snapshots of the state can be written while decoding."""
    return model.architecture in _SPARE_SLOTS and view.linear_attn_backend == "triton"


@rule(
    stage="model",
    reads=(
        "disable_radix_cache",
        "mamba_radix_cache_strategy",
        "disable_overlap_schedule",
        "page_size",
        "linear_attn_backend",
    ),
    writes=("uses_mamba_radix_cache", "mamba_radix_cache_strategy", "disable_overlap_schedule"),
)
def state_cache(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Cached state either has spare slots, and decoding goes on, or it stops overlap and paging."""
    if not caches_state(model) or view.disable_radix_cache:
        return
    yield suggest("uses_mamba_radix_cache", True, "the model carries a state beside its keys")
    if view.mamba_radix_cache_strategy != "auto":
        return
    useful = not view.disable_overlap_schedule or (view.page_size or 1) > 1
    if useful and has_spare_slots(view, model):
        because = "snapshots of the state are written while decoding goes on"
        yield fill(view, "mamba_radix_cache_strategy", "extra_buffer", because)
    else:
        because = "the state is copied between steps, so steps do not overlap"
        yield fill(view, "mamba_radix_cache_strategy", "no_buffer", because)
        if not view.disable_overlap_schedule:
            yield force("disable_overlap_schedule", True, because)


@rule(
    stage="model",
    reads=(
        "uses_mamba_radix_cache",
        "mamba_radix_cache_strategy",
        "page_size",
        "attention_backend",
        "disable_overlap_schedule",
        "disable_radix_cache",
        "disaggregation_mode",
        "linear_attn_backend",
        "mamba_track_interval",
        "speculative_num_draft_tokens",
    ),
    after=("state_cache",),
)
def state_cache_limits(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """What a way of caching the state requires of machine, pages and schedule."""
    if not view.uses_mamba_radix_cache:
        return
    page = view.page_size
    if not extra_buffer(view):
        yield from _assert(
            ("page_size", page in (1, None), "without spare slots the state is cached per token"),
            ("disable_overlap_schedule", view.disable_overlap_schedule, "without spare slots steps do not overlap"),
            (
                "attention_backend",
                view.attention_backend != "trtllm_mha",
                "trtllm_mha reads whole pages, and the state is cached per token",
            ),
        )
        return
    device = is_cuda(facts) or is_musa(facts) or is_npu(facts) or is_rocm(facts) or is_xpu(facts)
    chunk = int(model.hf_config.get("mamba_chunk_size") or _STATE_CHUNK)
    lazy = view.mamba_radix_cache_strategy == "extra_buffer_lazy"
    draft, interval = view.speculative_num_draft_tokens, view.mamba_track_interval
    yield from _assert(
        ("linear_attn_backend", has_spare_slots(view, model), "this model's kernels write no snapshots"),
        ("device", device, "snapshots are written by GPU and NPU kernels"),
        ("disaggregation_mode", not lazy or view.disaggregation_mode == "null", "lazy snapshots stay on one server"),
        ("mamba_track_interval", draft is None or interval >= draft, "a draft spans more than one snapshot"),
        ("page_size", page is None or interval % page == 0, "snapshots fall on page borders"),
        (
            "page_size",
            page is None or max(chunk, page) % min(chunk, page) == 0,
            f"pages and state chunks of {chunk} tokens divide each other",
        ),
    )


def _assert(*conditions: tuple[str, bool, str]) -> Iterator[Declaration]:
    for name, condition, because in conditions:
        yield require(bool(condition), because, fields=("mamba_radix_cache_strategy", name), kind="AssertionError")


@rule(
    stage="attention",
    reads=(
        "mamba_cache_philox_rounds",
        "mamba_max_states_per_path",
        "mamba_backend",
        "mamba_ssm_dtype",
        "enable_hierarchical_cache",
        "enable_int8_mamba_checkpoint",
        "enable_mamba_cache_stochastic_rounding",
        "radix_cache_backend",
    ),
    after=("dual_chunk_caches",),
)
def state_kernels(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Kernels and number formats of the recurrent state."""
    rounds, paths = view.mamba_cache_philox_rounds, view.mamba_max_states_per_path
    yield require(rounds >= 0, "a number of rounds cannot be negative", fields=("mamba_cache_philox_rounds",))
    yield require(
        paths == -1 or paths > 0, "keep at least one state a path, or -1 for all", fields=("mamba_max_states_per_path",)
    )
    if view.enable_mamba_cache_stochastic_rounding:
        for condition, because, name in (
            (view.mamba_ssm_dtype == "float16", "only half precision is rounded stochastically", "mamba_ssm_dtype"),
            (is_cuda(facts), "the rounding instruction is NVIDIA's", "mamba_backend"),
            (
                view.mamba_backend != "triton" or is_sm100(facts),
                "Triton uses an instruction of SM100",
                "mamba_backend",
            ),
        ):
            yield require(condition, because, fields=("enable_mamba_cache_stochastic_rounding", name))
    yield require(
        view.mamba_backend != "flashinfer" or has_library(facts, "flashinfer"),
        "FlashInfer is not installed",
        fields=("mamba_backend",),
    )
    if view.enable_int8_mamba_checkpoint:
        for name, clash in (
            ("enable_hierarchical_cache", bool(view.enable_hierarchical_cache)),
            ("radix_cache_backend", view.radix_cache_backend is not None),
        ):
            yield require(
                not clash, "states in eight bits stay in our own cache", fields=("enable_int8_mamba_checkpoint", name)
            )


@rule(
    stage="attention",
    reads=(
        "linear_attn_backend",
        "linear_attn_decode_backend",
        "linear_attn_prefill_backend",
        "mamba_ssm_dtype",
        "enable_linear_replayssm_spec",
        "linear_attn_verify_backend",
    ),
    writes=("linear_attn_decode_backend", "mamba_ssm_dtype"),
    after=("state_kernels",),
)
def linear_attention_kernels(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Which linear-attention kernel decodes, and what each needs."""
    decode, common, half = view.linear_attn_decode_backend, view.linear_attn_backend, view.mamba_ssm_dtype == "bfloat16"
    if decode is None and common != "helion" and is_sm100(facts) and half:
        decode = "flashinfer"
        yield suggest("linear_attn_decode_backend", decode, "its kernel keeps the state in bfloat16 on this GPU")
    yield require(
        decode != "flashkda",
        "FlashKDA prefills only",
        fix="use --linear-attn-prefill-backend flashkda",
        fields=("linear_attn_decode_backend",),
    )
    if decode is None and common == "flashkda":
        decode = "triton"
        yield suggest("linear_attn_decode_backend", decode, "FlashKDA prefills only")
    decode = decode or common
    blackwell = is_cuda(facts) and facts.arch >= 100
    verify = view.linear_attn_verify_backend or ("flashinfer" if decode == "flashinfer" else None)
    for name, backend in (("linear_attn_decode_backend", decode), ("linear_attn_verify_backend", verify)):
        yield require(
            backend != "flashinfer" or half or not blackwell,
            "FlashInfer keeps the state in bfloat16 on this GPU",
            fix="add --mamba-ssm-dtype bfloat16",
            fields=(name, "mamba_ssm_dtype"),
        )
    prefill = view.linear_attn_prefill_backend or common
    yield require(
        prefill != "flashinfer" or not blackwell or version_at_least(facts.cuda_version, 13),
        "FlashInfer's prefill kernel for this GPU needs CUDA 13",
        fields=("linear_attn_prefill_backend",),
    )
    if view.enable_linear_replayssm_spec and view.mamba_ssm_dtype is None:
        yield suggest("mamba_ssm_dtype", "float32", "replayed states accumulate in single precision")


@rule(
    stage="attention",
    reads=(
        "enable_linear_replayssm",
        "enable_linear_replayssm_spec",
        "linear_attn_decode_backend",
        "disable_radix_cache",
        "disaggregation_mode",
        "linear_attn_backend",
        "linear_attn_verify_backend",
        "linear_replayssm_cache_len",
        "mamba_radix_cache_strategy",
        "speculative_algorithm",
        "speculative_eagle_topk",
    ),
    after=("linear_attention_kernels",),
)
def linear_attention_checks(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Replaying states instead of storing them: decode kernels, caches and roles that allow it."""
    decode = view.linear_attn_decode_backend or view.linear_attn_backend
    role = view.disaggregation_mode
    if view.enable_linear_replayssm:
        for condition, name in (
            (decode in ("triton", "helion"), "linear_attn_decode_backend"),
            (not extra_buffer(view), "mamba_radix_cache_strategy"),
            (role == "null", "disaggregation_mode"),
            (view.linear_replayssm_cache_len >= 1, "linear_replayssm_cache_len"),
        ):
            yield require(
                condition,
                "states are replayed by Triton or Helion on a single server without spare slots",
                fields=("enable_linear_replayssm", name),
            )
    if not view.enable_linear_replayssm_spec:
        return
    mode = facts.env.get("SGLANG_RAGGED_VERIFY_MODE", "static")
    ragged = algorithm(view) in ("DSPARK", "DFLASH") and view.linear_attn_verify_backend in ("triton", "nv_cutedsl")
    for condition, name in (
        (view.speculative_eagle_topk in (None, 1), "speculative_eagle_topk"),
        (decode in ("triton", "flashinfer"), "linear_attn_decode_backend"),
        (mode == "static" or ragged, "linear_attn_verify_backend"),
        (role != "prefill", "disaggregation_mode"),
        (not view.enable_linear_replayssm, "enable_linear_replayssm"),
    ):
        yield require(
            condition,
            "verified states are replayed along one chain of drafts",
            fields=("enable_linear_replayssm_spec", name),
        )


RULES = in_order(
    state_cache,
    state_cache_limits,
    state_kernels,
    linear_attention_kernels,
    linear_attention_checks,
)
