"""Falcon-H1, Jet, Granite hybrids, LFM2 and MiniCPM-V 4.6 on SM100: attention kernels beside states cached per token."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, require, rule, suggest

from ..asking import in_order
from ..machine import is_sm100

PER_TOKEN = {
    "FalconH1ForCausalLM": "triton",
    "JetNemotronForCausalLM": "triton",
    "JetVLMForConditionalGeneration": "triton",
    "MiniCPMV4_6ForConditionalGeneration": "triton",
    "GraniteMoeHybridForCausalLM": "flashinfer",
    "Lfm2ForCausalLM": "flashinfer",
    "Lfm2MoeForCausalLM": "flashinfer",
}
"""The kernel on SM100, where the default for plain attention would read pages."""

LFM2 = ("Lfm2ForCausalLM", "Lfm2MoeForCausalLM")


@rule(
    stage="model",
    architectures=tuple(PER_TOKEN),
    reads=("attention_backend",),
    writes=("attention_backend",),
    before=("state_cache",),
)
def per_token_attention(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """On SM100 the paged default gives way to a kernel that reads single tokens."""
    if not is_sm100(facts) or view.attention_backend is not None:
        return
    if model.architecture == "GraniteMoeHybridForCausalLM" and "mamba" not in model.layer_types:
        return
    yield suggest("attention_backend", PER_TOKEN[model.architecture], "the state is cached per token, and so are keys")


@rule(
    stage="model",
    architectures=LFM2,
    reads=("attention_backend",),
    after=("per_token_attention",),
    before=("state_cache",),
)
def lfm2_without_triton(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """LFM2 starts with convolutions, and the Triton kernel plans by the first layer."""
    yield require(
        view.attention_backend != "triton",
        "the first layer is not attention, by which the Triton kernel plans",
        fields=("attention_backend",),
        kind="AssertionError",
    )


RULES = in_order(per_token_attention, lfm2_without_triton)
