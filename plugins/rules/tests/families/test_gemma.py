"""Cases of the rules in sgl_rules.families.gemma: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.gemma import gemma4_kernels, gemma4_limits, gemma_one_pool

G4 = "Gemma4ForCausalLM"

CASES = (
    Case(gemma_one_pool, {"disable_hybrid_swa_memory": True}, model="Gemma2ForCausalLM"),
    Case(gemma_one_pool, {}, model="Gemma2ForCausalLM", disable_hybrid_swa_memory=True),
    Case(gemma4_kernels, {"attention_backend": "triton"}, model=G4),
    Case(
        gemma4_kernels,
        {
            "attention_backend": "trtllm_mha",
            "quantization": "modelopt_fp4",
            "moe_runner_backend": "flashinfer_trtllm",
        },
        machine="sm100",
        model=G4,
        config={"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}},
    ),
    Case(gemma4_kernels, {}, model=G4, attention_backend="triton"),
    Case(gemma4_limits, "AssertionError", model=G4, attention_backend="triton", decode_attention_backend="fa3"),
    Case(gemma4_limits, {}, model=G4, attention_backend="triton"),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
