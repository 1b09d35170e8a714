"""Cases of the rules in sgl_rules.communication: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.communication import allreduce_fusion, deterministic_without_fusion, sparse_head_without_overlap

CASES = (
    Case(
        deterministic_without_fusion,
        {"enforce_disable_flashinfer_allreduce_fusion": True},
        enable_deterministic_inference=True,
    ),
    Case(deterministic_without_fusion, {}),
    Case(
        sparse_head_without_overlap,
        {"disable_overlap_schedule": True},
        env={"SGLANG_EMBEDDINGS_SPARSE_HEAD": "x"},
    ),
    Case(sparse_head_without_overlap, {}),
    Case(
        allreduce_fusion,
        {"flashinfer_allreduce_fusion_backend": "auto"},
        model="Qwen3MoeForCausalLM",
        tp_size=8,
    ),
    Case(
        allreduce_fusion,
        {"flashinfer_allreduce_fusion_backend": None},
        flashinfer_allreduce_fusion_backend="trtllm",
        enforce_disable_flashinfer_allreduce_fusion=True,
    ),
    Case(allreduce_fusion, {}, model="Qwen3MoeForCausalLM"),
    Case(allreduce_fusion, {}, machine="sm120", model="Qwen3MoeForCausalLM", tp_size=8),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
