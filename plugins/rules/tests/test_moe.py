"""Cases of the rules in sgl_rules.moe: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.moe import (
    cutlass_runner,
    expert_balance,
    expert_statistics,
    marlin_experiment,
    runner_for_format,
    runner_limits,
    shared_experts_apart,
)

CASES = (
    Case(runner_for_format, {"moe_runner_backend": "flashinfer_trtllm"}, machine="sm100", quantization="nvfp4_online"),
    Case(runner_for_format, "ValueError", quantization="nvfp4_online"),
    Case(runner_for_format, "ValueError", machine="sm100", quantization="nvfp4_online", moe_runner_backend="triton"),
    Case(runner_for_format, {"moe_runner_backend": "triton"}, machine="gfx95", quantization="mxfp8"),
    Case(
        runner_for_format,
        {"moe_runner_backend": "flashinfer_trtllm"},
        quantization="mxfp8",
        moe_runner_backend="triton",
    ),
    Case(runner_for_format, {}, quantization="mxfp8", moe_runner_backend="deep_gemm"),
    Case(runner_for_format, {"moe_runner_backend": "flashinfer_cutlass"}, machine="sm120", quantization="modelopt_fp4"),
    Case(runner_for_format, {}, quantization="modelopt_fp4"),
    Case(runner_limits, "AssertionError", moe_runner_backend="flashinfer_cutlass", quantization="fp8"),
    Case(runner_limits, "AssertionError", moe_runner_backend="flashinfer_cutlass", ep_size=2, tp_size=8),
    Case(runner_limits, "AssertionError", moe_runner_backend="flashinfer_cutedsl"),
    Case(
        runner_limits,
        "AssertionError",
        moe_runner_backend="flashinfer_cutedsl",
        quantization="modelopt_fp4",
        moe_a2a_backend="mooncake",
    ),
    Case(
        runner_limits,
        "ValueError",
        moe_runner_backend="flashinfer_cutedsl",
        quantization="nvfp4_online",
        moe_a2a_backend="deepep",
    ),
    Case(runner_limits, {}, moe_runner_backend="flashinfer_trtllm", quantization="fp8"),
    Case(shared_experts_apart, {"disable_shared_experts_fusion": True}, moe_runner_backend="flashinfer_trtllm"),
    Case(shared_experts_apart, {}, moe_runner_backend="triton"),
    Case(cutlass_runner, "AssertionError", moe_runner_backend="cutlass", quantization="fp8", ep_size=2),
    Case(cutlass_runner, {"moe_runner_backend": "cutlass"}, quantization="fp8", env={"SGLANG_CUTLASS_MOE": "1"}),
    Case(cutlass_runner, "AssertionError", env={"SGLANG_CUTLASS_MOE": "1"}),
    Case(cutlass_runner, {}, moe_runner_backend="cutlass", quantization="fp8"),
    Case(
        expert_balance,
        {"expert_distribution_recorder_mode": "stat", "ep_dispatch_algorithm": "dynamic"},
        enable_eplb=True,
        ep_size=2,
    ),
    Case(
        expert_balance,
        {"expert_distribution_recorder_mode": "stat", "ep_dispatch_algorithm": "static"},
        enable_eplb=True,
        ep_size=2,
        moe_a2a_backend="deepep",
    ),
    Case(expert_balance, "AssertionError", enable_eplb=True),
    Case(expert_balance, "ValueError", ep_dispatch_algorithm="static"),
    Case(expert_balance, {}),
    Case(
        expert_statistics,
        {"expert_distribution_recorder_mode": "stat"},
        expert_balancedness_report_mode="both",
        expert_distribution_recorder_buffer_size=5,
    ),
    Case(expert_statistics, {"expert_distribution_recorder_buffer_size": 1000}),
    Case(expert_statistics, "ValueError", env={"SGLANG_ENABLE_EPLB_BALANCEDNESS_METRIC": "1"}),
    Case(expert_statistics, {}, expert_distribution_recorder_buffer_size=5),
    Case(
        marlin_experiment,
        "ValueError",
        moe_runner_backend="experimental_sgl_marlin",
        ep_size=2,
        moe_a2a_backend="deepep",
    ),
    Case(marlin_experiment, "ValueError", moe_runner_backend="experimental_sgl_marlin", enable_lora=True),
    Case(marlin_experiment, {}, moe_runner_backend="experimental_sgl_marlin"),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
