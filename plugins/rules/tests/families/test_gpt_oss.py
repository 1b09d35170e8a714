"""Cases of the rules in sgl_rules.families.gpt_oss: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.gpt_oss import gpt_oss_experts, gpt_oss_limits, sink_attention

OSS = "GptOssForCausalLM"
MXFP4 = {"quantization_config": {"quant_method": "mxfp4"}}

CASES = (
    Case(
        sink_attention,
        {"attention_backend": "trtllm_mha", "dtype": "bfloat16"},
        machine="sm100",
        model=OSS,
        config=MXFP4,
    ),
    Case(sink_attention, {"attention_backend": "fa3"}, model=OSS),
    Case(sink_attention, {"attention_backend": "intel_amx"}, machine="amx", model=OSS),
    Case(sink_attention, {"attention_backend": "intel_xpu"}, machine="xpu", model=OSS),
    Case(sink_attention, {"attention_backend": "aiter"}, machine="rocm", model=OSS),
    Case(sink_attention, {"attention_backend": "triton"}, machine="sm80", model=OSS),
    Case(sink_attention, {}, machine="mlx", model=OSS),
    Case(sink_attention, "NotImplementedError", machine="xpu", model=OSS, dtype="float16"),
    Case(gpt_oss_experts, {"moe_runner_backend": "flashinfer_mxfp4"}, machine="sm120", model=OSS, config=MXFP4),
    Case(gpt_oss_experts, {"moe_runner_backend": "triton_kernel"}, model=OSS, config=MXFP4),
    Case(gpt_oss_experts, {"moe_runner_backend": "triton"}, machine="sm103", model=OSS),
    Case(gpt_oss_experts, {"moe_runner_backend": "triton"}, machine="rocm", model=OSS, env={"SGLANG_USE_AITER": "1"}),
    Case(gpt_oss_experts, {}, machine="rocm", model=OSS, config=MXFP4, env={"SGLANG_USE_AITER": "1"}),
    Case(
        gpt_oss_experts,
        {"moe_runner_backend": "deep_gemm"},
        machine="musa",
        model=OSS,
        env={"SGLANG_DEEPEP_BF16_DISPATCH": "1"},
    ),
    Case(gpt_oss_limits, "AssertionError", model=OSS, attention_backend="flashinfer"),
    Case(
        gpt_oss_limits,
        "AssertionError",
        model=OSS,
        attention_backend="fa3",
        moe_runner_backend="triton_kernel",
        ep_size=2,
    ),
    Case(gpt_oss_limits, {}, model=OSS, attention_backend="fa3"),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
