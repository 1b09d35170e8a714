"""Cases of the rules in sgl_rules.moe_dispatch: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import MACHINES
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.graph_plan import default_plan, with_phase, without_graphs
from sgl_rules.moe_dispatch import (
    ascend_dispatch,
    cutedsl_budget,
    deepep_modes,
    deepep_v2_budget,
    deepep_v2_limits,
    dispatch_budget,
    dispatcher_ranks,
    flashinfer_dispatch,
)

PLAN = default_plan(MACHINES["sm90"])

CASES = (
    Case(dispatcher_ranks, {"ep_size": 8}, moe_a2a_backend="deepep", tp_size=8),
    Case(
        dispatcher_ranks,
        {"moe_a2a_backend": "deepep", "ep_size": 8, "enforce_shared_experts_fusion": True},
        enable_waterfill=True,
        tp_size=8,
    ),
    Case(
        dispatcher_ranks,
        {"ep_size": 8, "disable_shared_experts_fusion": True},
        moe_a2a_backend="flashinfer",
        tp_size=8,
    ),
    Case(dispatcher_ranks, {"moe_a2a_backend": "megamoe"}, env={"SGLANG_OPT_USE_DEEPGEMM_MEGA_MOE": "1"}),
    Case(dispatcher_ranks, {}, moe_a2a_backend="ascend_tp", tp_size=8),
    Case(deepep_modes, {"cuda_graph_config": without_graphs(PLAN)}, moe_a2a_backend="deepep", deepep_mode="normal"),
    Case(
        deepep_modes,
        {"deepep_mode": "low_latency"},
        moe_a2a_backend="deepep",
        moe_runner_backend="flashinfer_cutedsl",
    ),
    Case(
        deepep_modes,
        "ValueError",
        moe_a2a_backend="deepep",
        moe_runner_backend="flashinfer_cutedsl",
        deepep_mode="normal",
    ),
    Case(deepep_modes, {}, deepep_mode="normal"),
    Case(
        deepep_v2_limits,
        {"moe_runner_backend": "deep_gemm", "cuda_graph_config": with_phase(PLAN, "prefill", backend="disabled")},
        model="Qwen3MoeForCausalLM",
        moe_a2a_backend="deepep_v2",
        expected_env={"NCCL_CUMEM_ENABLE": "1"},
    ),
    Case(deepep_v2_limits, "ValueError", moe_a2a_backend="deepep_v2"),
    Case(deepep_v2_limits, {}),
    Case(ascend_dispatch, {"moe_a2a_backend": "none"}, machine="npu", moe_a2a_backend="ascend_tp"),
    Case(ascend_dispatch, {}, machine="npu"),
    Case(flashinfer_dispatch, "AssertionError", moe_a2a_backend="flashinfer"),
    Case(
        flashinfer_dispatch,
        "AssertionError",
        moe_a2a_backend="flashinfer",
        enable_dp_attention=True,
        moe_runner_backend="triton",
    ),
    Case(
        flashinfer_dispatch,
        {},
        moe_a2a_backend="flashinfer",
        enable_dp_attention=True,
        moe_runner_backend="flashinfer_cutlass",
        quantization="modelopt_fp4",
        expected_env={"SGLANG_MOE_NVFP4_DISPATCH": "True"},
    ),
    Case(flashinfer_dispatch, {}, moe_a2a_backend="deepep"),
    Case(dispatch_budget, {"deepep_mode": "normal"}, moe_a2a_backend="mori", chunked_prefill_size=4096),
    Case(dispatch_budget, "AssertionError", moe_a2a_backend="mori", chunked_prefill_size=8192),
    Case(
        dispatch_budget,
        {"deepep_mode": "low_latency", "moe_runner_backend": "deep_gemm"},
        moe_a2a_backend="pplx",
        enable_dp_attention=True,
        dp_size=2,
        chunked_prefill_size=128,
    ),
    Case(dispatch_budget, "AssertionError", moe_a2a_backend="pplx"),
    Case(dispatch_budget, "ValueError", moe_a2a_backend="pplx", deepep_mode="normal"),
    Case(dispatch_budget, {}, chunked_prefill_size=8192),
    Case(
        cutedsl_budget,
        "ValueError",
        moe_a2a_backend="flashinfer",
        moe_runner_backend="flashinfer_cutedsl",
        max_prefill_tokens=16384,
    ),
    Case(
        cutedsl_budget,
        {},
        moe_a2a_backend="flashinfer",
        moe_runner_backend="flashinfer_cutedsl",
        max_prefill_tokens=16384,
        ep_size=16,
    ),
    Case(deepep_v2_budget, "ValueError", moe_a2a_backend="deepep_v2", chunked_prefill_size=8192),
    Case(deepep_v2_budget, "ValueError", moe_a2a_backend="deepep_v2", speculative_algorithm="EAGLE"),
    Case(
        deepep_v2_budget,
        {},
        moe_a2a_backend="deepep_v2",
        chunked_prefill_size=128,
        decided={"cuda_graph_config": with_phase(PLAN, "decode", max_bs=64)},
    ),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
