"""Cohere's mixture-of-experts models."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, rule

from ..asking import fill, in_order
from ..machine import is_sm100
from ..quantization import served_method

COHERE_MOE = ("Cohere2MoeForCausalLM", "Cohere2VisionForConditionalGeneration")


@rule(
    stage="model",
    architectures=COHERE_MOE,
    reads=("moe_runner_backend", "quantization"),
    writes=("moe_runner_backend",),
    before=("state_cache",),
)
def cohere_experts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Plain and packed NVFP4 experts use the TensorRT-LLM runner on SM100."""
    if view.moe_runner_backend != "auto" or not is_sm100(facts):
        return
    section = model.quant_config
    groups = (section.get("config_groups") or {}).values()
    formats = [section.get("format", ""), *(group.get("format", "") for group in groups if isinstance(group, dict))]
    packed = any("nvfp4" in str(form) for form in formats)
    if packed or served_method(view.quantization, facts, model) is None:
        yield fill(view, "moe_runner_backend", "flashinfer_trtllm", "the fastest runner for these experts on this GPU")


RULES = in_order(cohere_experts)
