"""Cases of the rules in sgl_rules.graphs: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import MACHINES
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.graph_plan import default_plan, with_phase, without_graphs
from sgl_rules.graphs import (
    deepep_graph_alignment,
    dumps_without_graphs,
    graph_request,
    graph_roles,
    prefill_graph_support,
    trtllm_mla_prefill_not_captured,
)

BROKEN = default_plan(MACHINES["sm90"])
OFF = with_phase(BROKEN, "prefill", backend="disabled")

CASES = (
    Case(graph_request, {"cuda_graph_config": BROKEN}),
    Case(graph_request, {"cuda_graph_config": default_plan(MACHINES["rocm"])}, machine="rocm"),
    Case(graph_request, {"cuda_graph_config": without_graphs(BROKEN)}, disable_cuda_graph=True),
    Case(
        graph_request,
        {"cuda_graph_config": with_phase(BROKEN, "decode", max_bs=64, backend="breakable")},
        cuda_graph_max_bs_decode=64,
        cuda_graph_config={"decode": {"backend": "breakable"}},
    ),
    Case(graph_request, {}, decided={"cuda_graph_config": BROKEN}),
    Case(prefill_graph_support, {"cuda_graph_config": OFF}, cuda_graph_backend_decode="full", pp_size=2),
    Case(prefill_graph_support, {"cuda_graph_config": OFF}, model="DeepseekV4ForCausalLM"),
    Case(prefill_graph_support, {"cuda_graph_config": OFF}, enable_two_batch_overlap=True),
    Case(
        prefill_graph_support,
        {"cuda_graph_config": with_phase(BROKEN, "prefill", backend="tc_piecewise")},
        model="MiniMaxM3SparseForCausalLM",
    ),
    Case(
        prefill_graph_support,
        {"cuda_graph_config": with_phase(default_plan(MACHINES["musa"]), "prefill", backend="disabled")},
        machine="musa",
        enable_lora=True,
    ),
    Case(prefill_graph_support, {}, machine="musa"),
    Case(prefill_graph_support, {}, cuda_graph_backend_prefill="breakable", pp_size=2),
    Case(prefill_graph_support, {}),
    Case(
        deepep_graph_alignment,
        {"cuda_graph_config": with_phase(BROKEN, "prefill", bs=[8, 16], max_bs=16)},
        moe_a2a_backend="deepep",
        decided={"cuda_graph_config": with_phase(BROKEN, "prefill", bs=[4, 8, 12])},
    ),
    Case(deepep_graph_alignment, {}, decided={"cuda_graph_config": with_phase(BROKEN, "prefill", bs=[4, 8, 12])}),
    Case(
        graph_roles,
        {"cuda_graph_config": with_phase(BROKEN, "decode", backend="disabled")},
        disaggregation_mode="prefill",
    ),
    Case(graph_roles, {"cuda_graph_config": OFF}, disaggregation_mode="decode"),
    Case(graph_roles, "ValueError", decided={"cuda_graph_config": with_phase(BROKEN, "decode", backend="magic")}),
    Case(graph_roles, {}),
    Case(
        trtllm_mla_prefill_not_captured,
        {"cuda_graph_config": OFF},
        machine="sm100",
        model="DeepseekV3ForCausalLM",
        attention_backend="trtllm_mla",
    ),
    Case(
        trtllm_mla_prefill_not_captured,
        {},
        machine="sm100",
        model="DeepseekV3ForCausalLM",
        attention_backend="flashinfer",
    ),
    Case(
        dumps_without_graphs,
        {"cuda_graph_config": without_graphs(BROKEN), "skip_server_warmup": True},
        debug_tensor_dump_output_folder="dumps",
    ),
    Case(dumps_without_graphs, {}),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
