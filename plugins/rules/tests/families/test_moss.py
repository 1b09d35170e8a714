"""Cases of the rules in sgl_rules.families.moss: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.moss import moss_cross_attention

MOSS = "MossVLForConditionalGeneration"

CASES = (
    Case(moss_cross_attention, {"prefill_attention_backend": "flashinfer"}, model=MOSS),
    Case(moss_cross_attention, "AssertionError", model=MOSS, attention_backend="fa3"),
    Case(moss_cross_attention, {}, model=MOSS, attention_backend="flashinfer"),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
