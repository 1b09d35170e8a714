"""Cases of the rules in sgl_rules.families.cohere: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.cohere import cohere_experts

COHERE = "Cohere2MoeForCausalLM"

CASES = (
    Case(cohere_experts, {"moe_runner_backend": "flashinfer_trtllm"}, machine="sm100", model=COHERE),
    Case(
        cohere_experts,
        {},
        machine="sm100",
        model=COHERE,
        config={"quantization_config": {"quant_method": "fp8"}},
    ),
    Case(cohere_experts, {}, model=COHERE),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
