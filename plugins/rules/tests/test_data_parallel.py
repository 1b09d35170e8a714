"""Cases of the rules in sgl_rules.data_parallel: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import MACHINES
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.data_parallel import (
    chunk_per_replica,
    data_parallel_checks,
    distributed_weights,
    pipeline_without_overlap,
    sharded_head_exchange,
    single_replica,
)
from sgl_rules.graph_plan import default_plan, prefill_sizes, with_phase

PLAN = with_phase(default_plan(MACHINES["sm90"]), "prefill", max_bs=8192, bs=prefill_sizes(8192))

CASES = (
    Case(
        distributed_weights,
        {
            "dp_size": 2,
            "enable_dp_attention": True,
            "enable_dp_attention_local_control_broadcast": True,
            "enable_dp_lm_head": True,
            "moe_dense_tp_size": 1,
            "ep_size": 2,
            "moe_dp_size": 1,
            "moe_a2a_backend": "none",
            "disable_cuda_graph": True,
        },
        dwdp_size=2,
        tp_size=2,
    ),
    Case(distributed_weights, "AssertionError", dwdp_size=2, tp_size=4),
    Case(distributed_weights, {}),
    Case(single_replica, {"enable_dp_attention": False}, enable_dp_attention=True),
    Case(single_replica, {}, enable_dp_attention=True, dp_size=2),
    Case(
        sharded_head_exchange,
        {"enable_tp_lm_head_all_to_all": True},
        disaggregation_mode="decode",
        enable_dp_attention=True,
        dp_size=8,
        tp_size=8,
    ),
    Case(sharded_head_exchange, {"enable_tp_lm_head_all_to_all": False}),
    Case(sharded_head_exchange, {}, enable_tp_lm_head_all_to_all=True),
    Case(data_parallel_checks, "AssertionError", enable_dp_attention=True, dp_size=3, tp_size=8),
    Case(data_parallel_checks, "AssertionError", enable_dp_lm_head=True),
    Case(data_parallel_checks, "AssertionError", enable_tp_lm_head_all_to_all=True),
    Case(data_parallel_checks, {}, enable_dp_attention=True, dp_size=4, tp_size=8),
    Case(pipeline_without_overlap, {"disable_overlap_schedule": True}, pp_size=2),
    Case(pipeline_without_overlap, {}),
    Case(
        chunk_per_replica,
        {
            "schedule_conservativeness": 0.3,
            "chunked_prefill_size": 2048,
            "cuda_graph_config": with_phase(PLAN, "prefill", max_bs=2048, bs=prefill_sizes(2048)),
        },
        enable_dp_attention=True,
        dp_size=4,
        chunked_prefill_size=8192,
        decided={"cuda_graph_config": PLAN},
    ),
    Case(chunk_per_replica, {}, chunked_prefill_size=8192),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
