"""Cases of the rules in sgl_rules.families.minicpm: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.minicpm import minicpm_attention

SALA = "MiniCPMSALAForCausalLM"
SPARSE = {"has_minicpm_sparse_attention": True}

CASES = (
    Case(
        minicpm_attention,
        {"disable_radix_cache": True, "attention_backend": "minicpm_flashattn"},
        model=SALA,
        config=SPARSE,
    ),
    Case(minicpm_attention, "ValueError", model=SALA, config=SPARSE, enable_hierarchical_cache=True),
    Case(minicpm_attention, "ValueError", model=SALA, enable_dp_attention=True),
    Case(
        minicpm_attention,
        {"attention_backend": "fa3"},
        model=SALA,
        attention_backend="minicpm_flashattn",
        env={"SGLANG_MINICPM_FORCE_DENSE": "1"},
    ),
    Case(minicpm_attention, {}, model=SALA),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
