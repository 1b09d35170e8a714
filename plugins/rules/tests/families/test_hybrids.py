"""Cases of the rules in sgl_rules.families.hybrids: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.hybrids import lfm2_without_triton, per_token_attention

CASES = (
    Case(per_token_attention, {"attention_backend": "triton"}, machine="sm100", model="FalconH1ForCausalLM"),
    Case(per_token_attention, {"attention_backend": "flashinfer"}, machine="sm100", model="Lfm2ForCausalLM"),
    Case(per_token_attention, {}, machine="sm100", model="GraniteMoeHybridForCausalLM"),
    Case(per_token_attention, {}, model="FalconH1ForCausalLM"),
    Case(lfm2_without_triton, "AssertionError", model="Lfm2ForCausalLM", attention_backend="triton"),
    Case(lfm2_without_triton, {}, model="Lfm2ForCausalLM", attention_backend="fa3"),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
