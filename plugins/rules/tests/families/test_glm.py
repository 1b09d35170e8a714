"""Cases of the rules in sgl_rules.families.glm: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.glm import glm4_experts

GLM = "Glm4MoeForCausalLM"

CASES = (
    Case(glm4_experts, {"enable_tf32_matmul": True}, model=GLM),
    Case(
        glm4_experts,
        {"enable_tf32_matmul": True, "quantization": "fp8"},
        machine="sm100",
        model=GLM,
        config={"quantization_config": {"quant_method": "fp8"}},
    ),
    Case(
        glm4_experts, {"moe_runner_backend": "flashinfer_trtllm"}, machine="sm100", model=GLM, enable_tf32_matmul=True
    ),
    Case(glm4_experts, {}, model=GLM, enable_tf32_matmul=True),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
