"""Fused all-reduces: when they are worth it, and what switches them off."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, rule, suggest

from .asking import in_order
from .machine import is_sm90, is_sm100, switch

_FUSES = frozenset(
    {
        "DeepseekV32ForCausalLM",
        "DeepseekV3ForCausalLM",
        "DeepseekV4ForCausalLM",
        "Glm4MoeForCausalLM",
        "Glm4MoeLiteForCausalLM",
        "GlmMoeDsaForCausalLM",
        "GptOssForCausalLM",
        "InternS2PreviewForConditionalGeneration",
        "KimiK25ForConditionalGeneration",
        "MistralLarge3ForCausalLM",
        "NemotronHForCausalLM",
        "NemotronHPuzzleForCausalLM",
        "Qwen3MoeForCausalLM",
        "Qwen3NextForCausalLM",
        "Qwen3VLMoeForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
    }
)
"""Models whose layers hand the residual to the all-reduce, so that it can add and normalise on the way."""

_MNNVL_FUSES = frozenset({"Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration"})


@rule(
    stage="model",
    reads=("enable_deterministic_inference", "enforce_disable_flashinfer_allreduce_fusion"),
    writes=("enforce_disable_flashinfer_allreduce_fusion",),
)
def deterministic_without_fusion(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Deterministic inference keeps fused all-reduces off before they could be chosen."""
    if view.enable_deterministic_inference and not view.enforce_disable_flashinfer_allreduce_fusion:
        yield force("enforce_disable_flashinfer_allreduce_fusion", True, "fused all-reduces add in changing order")


@rule(
    stage="model",
    reads=("disable_overlap_schedule",),
    writes=("disable_overlap_schedule",),
    after=("state_cache_limits",),
)
def sparse_head_without_overlap(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Sparse embedding heads are read back each step."""
    if "SGLANG_EMBEDDINGS_SPARSE_HEAD" in facts.env and not view.disable_overlap_schedule:
        yield force("disable_overlap_schedule", True, "sparse embeddings are read back each step")


@rule(
    stage="model",
    reads=(
        "flashinfer_allreduce_fusion_backend",
        "tp_size",
        "enable_dp_attention",
        "nnodes",
        "moe_a2a_backend",
        "enforce_disable_flashinfer_allreduce_fusion",
    ),
    writes=("flashinfer_allreduce_fusion_backend",),
    after=("sparse_head_without_overlap", "deterministic_without_fusion"),
)
def allreduce_fusion(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Tensor-parallel MoE models on Hopper and Blackwell fuse the all-reduce with the norm that follows."""
    backend = view.flashinfer_allreduce_fusion_backend
    if view.enforce_disable_flashinfer_allreduce_fusion:
        if backend is not None:
            yield force("flashinfer_allreduce_fusion_backend", None, "fused all-reduces are switched off")
        return
    if switch(facts, "SGLANG_FLASHINFER_MNNVL_CUTEDSL_AR_FUSION") and model.architecture in _MNNVL_FUSES:
        if backend is not None:
            yield force("flashinfer_allreduce_fusion_backend", None, "the fabric's own fused all-reduce is on")
        return
    useful = (
        model.architecture in _FUSES
        and (is_sm90(facts) or is_sm100(facts))
        and view.tp_size > 1
        and not view.enable_dp_attention
        and (view.nnodes == 1 or is_sm100(facts))
        and view.moe_a2a_backend == "none"
    )
    if backend is None and useful:
        yield suggest("flashinfer_allreduce_fusion_backend", "auto", "one kernel adds, normalises and exchanges")


RULES = in_order(deterministic_without_fusion, sparse_head_without_overlap, allreduce_fusion)
