"""Cases of the rules in sgl_rules.families.kimi: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.kimi import delta_attention_kernels, k3_attention, k3_decode_context, k3_experts

K3 = "KimiK3ForConditionalGeneration"
MXFP4 = {
    "quantization_config": {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"format": "mxfp4-pack-quantized"}},
    }
}

CASES = (
    Case(
        k3_decode_context,
        {
            "prefill_attention_backend": "trtllm_mla",
            "decode_attention_backend": "cutedsl_mla",
            "dcp_replicate_q_proj": True,
            "dcp_comm_backend": "a2a",
        },
        machine="sm100",
        model=K3,
        dcp_size=8,
    ),
    Case(
        k3_decode_context,
        {
            "enable_symm_mem": False,
            "prefill_attention_backend": "tokenspeed_mla",
            "decode_attention_backend": "tokenspeed_mla",
            "kv_cache_dtype": "fp8_e4m3",
            "dcp_comm_backend": "fi_a2a",
        },
        machine="gb200",
        model=K3,
        dcp_size=8,
        enable_symm_mem=True,
        dcp_replicate_q_proj=False,
        attention_backend="tokenspeed_mla",
    ),
    Case(k3_decode_context, "AssertionError", model=K3, dcp_size=8, attention_backend="triton"),
    Case(k3_decode_context, "RuntimeError", machine="rocm", model=K3, dcp_size=8),
    Case(
        k3_decode_context,
        "ValueError",
        model=K3,
        dcp_size=8,
        speculative_algorithm="DSPARK",
        env={"SGLANG_RAGGED_VERIFY_MODE": "compact"},
    ),
    Case(k3_decode_context, {}, model=K3),
    Case(
        k3_attention,
        {"prefill_attention_backend": "trtllm_mla", "decode_attention_backend": "trtllm_mla"},
        machine="sm100",
        model=K3,
    ),
    Case(
        k3_attention,
        {"speculative_attention_mode": "decode"},
        machine="sm103",
        model=K3,
        speculative_algorithm="DSPARK",
        attention_backend="cutedsl_mla",
    ),
    Case(k3_attention, {}, model=K3),
    Case(k3_experts, {"moe_runner_backend": "flashinfer_mxfp4"}, machine="sm100", model=K3, config=MXFP4),
    Case(k3_experts, {}, machine="sm100", model=K3),
    Case(
        delta_attention_kernels,
        {"linear_attn_verify_backend": "nv_cutedsl", "speculative_draft_attention_backend": "trtllm_mha"},
        machine="sm100",
        model=K3,
        speculative_algorithm="DSPARK",
    ),
    Case(
        delta_attention_kernels,
        {"linear_attn_decode_backend": "triton"},
        machine="sm100",
        model="KimiLinearForCausalLM",
        mamba_ssm_dtype="bfloat16",
    ),
    Case(delta_attention_kernels, {}, model="KimiLinearForCausalLM"),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
