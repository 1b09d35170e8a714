"""Cases of the rules in sgl_rules.families.windowed: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.windowed import exaone_windows, olmo_windows

CASES = (
    Case(
        exaone_windows,
        {"disable_hybrid_swa_memory": True},
        model="Exaone4ForCausalLM",
        config={"sliding_window_pattern": 4},
        attention_backend="fa3",
    ),
    Case(exaone_windows, "AssertionError", model="Exaone4ForCausalLM", config={"sliding_window_pattern": 4}),
    Case(exaone_windows, {}, model="Exaone4ForCausalLM"),
    Case(olmo_windows, {"attention_backend": "fa3", "disable_hybrid_swa_memory": True}, model="Olmo3ForCausalLM"),
    Case(
        olmo_windows,
        {"attention_backend": "triton"},
        machine="rocm",
        model="Olmo2ForCausalLM",
        disable_hybrid_swa_memory=True,
    ),
    Case(olmo_windows, "AssertionError", model="Olmo2ForCausalLM", attention_backend="flashinfer"),
    Case(olmo_windows, {}, model="Olmo2ForCausalLM", attention_backend="fa3", disable_hybrid_swa_memory=True),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
