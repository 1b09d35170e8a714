"""Cases of the rules in sgl_rules.families.minimax: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.minimax import m2_experts, m3_attention, m3_experts, m3_rocm_allreduce

M2 = "MiniMaxM2ForCausalLM"
M3 = "MiniMaxM3SparseForCausalLM"
MXFP8 = {"quantization_config": {"quant_method": "mxfp8"}}

CASES = (
    Case(m2_experts, {"enable_tf32_matmul": True}, model=M2),
    Case(
        m2_experts,
        {"moe_runner_backend": "flashinfer_trtllm_routed"},
        machine="sm100",
        model=M2,
        enable_tf32_matmul=True,
        config={"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}},
    ),
    Case(m2_experts, {}, model=M2, enable_tf32_matmul=True),
    Case(m3_attention, {"attention_backend": "fa4", "page_size": 128}, machine="sm100", model=M3),
    Case(m3_attention, {"attention_backend": "fa3", "page_size": 128}, model=M3),
    Case(m3_attention, {"attention_backend": "triton"}, machine="rocm", model=M3),
    Case(
        m3_attention,
        {"attention_backend": "trtllm_mha"},
        machine="sm100",
        model=M3,
        kv_cache_dtype="fp8_e4m3",
        page_size=64,
    ),
    Case(m3_attention, {}, machine="sm80", model=M3),
    Case(
        m3_experts,
        {"quantization": "mxfp8", "moe_runner_backend": "deep_gemm"},
        machine="sm100",
        model=M3,
        config=MXFP8,
    ),
    Case(m3_experts, {"quantization": "mxfp8", "moe_runner_backend": "triton"}, machine="rocm", model=M3, config=MXFP8),
    Case(m3_experts, {"moe_runner_backend": "triton"}, model=M3, moe_runner_backend="deep_gemm"),
    Case(m3_experts, {}, model=M3, moe_runner_backend="cutlass"),
    Case(
        m3_rocm_allreduce,
        {"disable_custom_all_reduce": True},
        machine="rocm",
        model=M3,
        expected_env={"USE_ROCM_AITER_ROPE_BACKEND": "0"},
    ),
    Case(
        m3_rocm_allreduce,
        {"enable_aiter_allreduce_fusion": False, "disable_custom_all_reduce": True},
        machine="rocm",
        model=M3,
        enable_aiter_allreduce_fusion=True,
        ep_size=2,
    ),
    Case(
        m3_rocm_allreduce,
        {},
        machine="rocm",
        model=M3,
        env={"USE_ROCM_AITER_ROPE_BACKEND": "1", "SGLANG_M3_ALLOW_CUSTOM_AR": "1"},
        expected_env={},
    ),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
