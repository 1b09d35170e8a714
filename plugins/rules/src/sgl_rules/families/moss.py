"""MOSS-VL: cross attention over media, with custom masks."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, require, rule, suggest

from ..asking import backends_unset, in_order, phase_backends

MOSS = ("MossVLForConditionalGeneration",)


@rule(
    stage="model",
    architectures=MOSS,
    reads=("attention_backend", "prefill_attention_backend", "decode_attention_backend"),
    writes=("prefill_attention_backend",),
    before=("state_cache",),
)
def moss_cross_attention(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Prefill needs FlashInfer's custom masks."""
    prefill = phase_backends(view)[0]
    if backends_unset(view):
        prefill = "flashinfer"
        yield suggest("prefill_attention_backend", prefill, "cross attention needs custom masks")
    yield require(
        prefill == "flashinfer",
        "cross attention needs FlashInfer's custom masks",
        fix="add --prefill-attention-backend flashinfer",
        fields=("prefill_attention_backend", "attention_backend"),
        kind="AssertionError",
    )


RULES = in_order(moss_cross_attention)
