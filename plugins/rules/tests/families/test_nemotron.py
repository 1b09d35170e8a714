"""Cases of the rules in sgl_rules.families.nemotron: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.nemotron import nemotron_attention, nemotron_experts

NEMO = "NemotronHForCausalLM"
NVFP4 = {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}
W4A16 = {
    "mlp_hidden_act": "relu2",
    "quantization_config": {
        "quant_method": "modelopt_mixed",
        "quantized_layers": {"layers.1.experts.0.up": {"quant_algo": "W4A16_NVFP4"}},
    },
}

CASES = (
    Case(nemotron_experts, {"moe_runner_backend": "flashinfer_trtllm"}, machine="sm100", model=NEMO),
    Case(nemotron_experts, {"moe_runner_backend": "flashinfer_cutlass"}, model=NEMO),
    Case(
        nemotron_experts,
        {"quantization": "modelopt_fp4", "moe_runner_backend": "marlin"},
        model=NEMO,
        config={**NVFP4, "mlp_hidden_act": "relu2"},
    ),
    Case(nemotron_experts, "AssertionError", model=NEMO, config={**NVFP4, "mlp_hidden_act": "silu"}),
    Case(
        nemotron_experts, {"quantization": "modelopt_mixed", "moe_runner_backend": "marlin"}, model=NEMO, config=W4A16
    ),
    Case(nemotron_experts, "ValueError", model=NEMO, config=W4A16, moe_a2a_backend="deepep"),
    Case(nemotron_experts, {}, model=NEMO, moe_runner_backend="triton"),
    Case(nemotron_attention, {"attention_backend": "trtllm_mha"}, machine="sm100", model=NEMO),
    Case(
        nemotron_attention,
        {
            "attention_backend": "trtllm_mha",
            "page_size": 64,
            "mamba_radix_cache_strategy": "extra_buffer",
            "speculative_draft_attention_backend": "trtllm_mha",
        },
        machine="sm100",
        model=NEMO,
        speculative_algorithm="EAGLE",
    ),
    Case(
        nemotron_attention,
        {"attention_backend": "triton", "speculative_draft_attention_backend": "flashinfer"},
        machine="sm120",
        model=NEMO,
        speculative_algorithm="EAGLE",
    ),
    Case(nemotron_attention, {}, machine="sm120", model=NEMO),
    Case(nemotron_attention, {}, model=NEMO),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
