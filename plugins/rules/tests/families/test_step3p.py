"""Cases of the rules in sgl_rules.families.step3p: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.step3p import step3p_kernels

STEP = "Step3p5ForCausalLM"

CASES = (
    Case(step3p_kernels, {"attention_backend": "fa4"}, machine="sm120", model=STEP),
    Case(
        step3p_kernels,
        {
            "attention_backend": "fa3",
            "enable_multi_layer_eagle": True,
            "swa_full_tokens_ratio": 1.0,
            "disable_hybrid_swa_memory": True,
        },
        model=STEP,
        speculative_algorithm="EAGLE",
        enable_hierarchical_cache=True,
    ),
    Case(step3p_kernels, {}, machine="rocm", model=STEP),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
