"""Cases of the rules in sgl_rules.diffusion: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import MACHINES
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.diffusion import block_exclusions, block_kernels, dllm_page_size
from sgl_rules.graph_plan import default_plan, without_graphs

CASES = (
    Case(
        block_kernels,
        {"attention_backend": "flashinfer", "disable_overlap_schedule": True},
        dllm_algorithm="LowConfidence",
        attention_backend="fa3",
    ),
    Case(
        block_kernels,
        {"cuda_graph_config": without_graphs(default_plan(MACHINES["rocm"])), "attention_backend": "triton"},
        machine="rocm",
        dllm_algorithm="LowConfidence",
        attention_backend="wave",
        disable_overlap_schedule=True,
    ),
    Case(block_kernels, {}, attention_backend="fa3"),
    Case(dllm_page_size, {"page_size": 32}, model="LLaDA2MoeModelLM", dllm_algorithm="LowConfidence", page_size=1),
    Case(dllm_page_size, {"page_size": 4}, model="SDARForCausalLM", dllm_algorithm="LowConfidence", page_size=64),
    Case(dllm_page_size, "RuntimeError", dllm_algorithm="LowConfidence", page_size=1),
    Case(dllm_page_size, {}, model="LLaDA2MoeModelLM", dllm_algorithm="LowConfidence", page_size=32),
    Case(
        block_exclusions,
        {"pp_size": 1, "enable_lora": False, "disaggregation_mode": "null", "enable_hierarchical_cache": False},
        dllm_algorithm="LowConfidence",
        pp_size=2,
        enable_lora=True,
        disaggregation_mode="prefill",
        enable_hierarchical_cache=True,
    ),
    Case(block_exclusions, {}, pp_size=2),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
