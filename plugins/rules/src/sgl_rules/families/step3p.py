"""Step 3.5 and 3.7: sliding windows beside full attention, several draft layers."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, rule, suggest

from ..asking import backends_unset, in_order
from ..machine import is_blackwell, is_sm90


def is_step3p(architecture: str) -> bool:
    """Step 3.5 or 3.7, or a model derived from them."""
    return "Step3p5ForCausalLM" in architecture or "Step3p7ForConditionalGeneration" in architecture


@rule(
    stage="model",
    applies=is_step3p,
    reads=(
        "attention_backend",
        "speculative_algorithm",
        "enable_hierarchical_cache",
        "decode_attention_backend",
        "disable_hybrid_swa_memory",
        "enable_multi_layer_eagle",
        "prefill_attention_backend",
        "swa_full_tokens_ratio",
    ),
    writes=(
        "attention_backend",
        "enable_multi_layer_eagle",
        "swa_full_tokens_ratio",
        "disable_hybrid_swa_memory",
    ),
    before=("state_cache",),
)
def step3p_kernels(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """FlashAttention by GPU, one draft layer per step, one pool under a host tier."""
    if backends_unset(view):
        if is_blackwell(facts):
            yield suggest("attention_backend", "fa4", "FlashAttention for Blackwell")
        elif is_sm90(facts):
            yield suggest("attention_backend", "fa3", "FlashAttention for Hopper")
    if view.speculative_algorithm == "EAGLE" and not view.enable_multi_layer_eagle:
        yield force("enable_multi_layer_eagle", True, "the checkpoint has a draft layer per step")
    if view.enable_hierarchical_cache:
        because = "the host tier stores whole prefixes of all layers"
        if view.swa_full_tokens_ratio != 1.0:
            yield force("swa_full_tokens_ratio", 1.0, because)
        if not view.disable_hybrid_swa_memory:
            yield force("disable_hybrid_swa_memory", True, because)


RULES = in_order(step3p_kernels)
