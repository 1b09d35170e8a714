"""Cases of the rules in sgl_rules.elastic_experts: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import MACHINES
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.elastic_experts import elastic_experts
from sgl_rules.graph_plan import default_plan, without_graphs

PLAN = default_plan(MACHINES["sm90"])

CASES = (
    Case(elastic_experts, {"ep_join_mode": "recover"}, elastic_ep_rejoin=True, elastic_ep_backend="mooncake"),
    Case(
        elastic_experts,
        {"eplb_algorithm": "elasticity_aware"},
        elastic_ep_backend="mooncake",
        enable_eplb=True,
    ),
    Case(elastic_experts, "AssertionError", elastic_ep_backend="mooncake", pp_size=2),
    Case(elastic_experts, "AssertionError", ep_join_mode="recover"),
    Case(elastic_experts, "AssertionError", max_ep_size=4),
    Case(elastic_experts, "AssertionError", elastic_ep_backend="mooncake", max_ep_size=4, tp_size=2),
    Case(
        elastic_experts,
        {"enable_dp_attention_local_control_broadcast": True, "elastic_ep_initial_size": 2},
        elastic_ep_backend="mooncake",
        max_ep_size=4,
        tp_size=2,
        dp_size=2,
        ep_size=2,
        enable_dp_attention=True,
        enable_dp_lm_head=True,
        moe_a2a_backend="nixl",
        load_balance_method="round_robin",
        decided={"cuda_graph_config": without_graphs(PLAN)},
    ),
    Case(elastic_experts, {}),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
