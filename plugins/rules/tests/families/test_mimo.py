"""Cases of the rules in sgl_rules.families.mimo: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.mimo import mimo_experts, mimo_projection

FUSED = {"attention_projection_layout": "fused_qkv"}

CASES = (
    Case(
        mimo_experts, {"enable_multi_layer_eagle": True}, model="MiMoV2FlashForCausalLM", speculative_algorithm="EAGLE"
    ),
    Case(
        mimo_experts,
        {"moe_runner_backend": "flashinfer_trtllm"},
        machine="sm100",
        model="MiMoV2FlashForCausalLM",
        config={"quantization_config": {"quant_method": "fp8"}},
    ),
    Case(mimo_experts, {}, model="MiMoV2FlashForCausalLM"),
    Case(mimo_projection, "ValueError", model="MiMoV2ForCausalLM", config=FUSED, tp_size=3),
    Case(mimo_projection, "ValueError", model="MiMoV2ForCausalLM", config={"attention_projection_layout": "other"}),
    Case(mimo_projection, {}, model="MiMoV2ForCausalLM", config=FUSED, tp_size=8),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
