"""Cases of the rules in sgl_rules.families.llama4: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.llama4 import llama4_kernels, llama4_limits

L4 = "Llama4ForConditionalGeneration"

CASES = (
    Case(llama4_kernels, {"attention_backend": "fa3"}, model=L4),
    Case(llama4_kernels, {"attention_backend": "aiter"}, machine="rocm", model=L4),
    Case(llama4_kernels, {"attention_backend": "intel_xpu"}, machine="xpu", model=L4),
    Case(
        llama4_kernels,
        {"attention_backend": "trtllm_mha", "moe_runner_backend": "flashinfer_trtllm"},
        machine="sm100",
        model=L4,
        quantization="fp8",
    ),
    Case(llama4_kernels, {}, machine="cpu", model=L4),
    Case(llama4_limits, "AssertionError", model=L4, attention_backend="flashinfer"),
    Case(llama4_limits, {}, model=L4, attention_backend="fa3"),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
