"""The plan of captured sizes: what was asked for, and the default sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgl_core.testing.rule_cases import MACHINES
from sgl_core.testing.views import DefaultsView
from sgl_rules.graph_plan import (
    cpu_sizes,
    decode_sizes,
    default_plan,
    locked,
    plan_of,
    prefill_sizes,
    requested,
    with_phase,
    without_graphs,
)


def test_prefill_backend_by_platform() -> None:
    assert default_plan(MACHINES["sm90"])["prefill"]["backend"] == "breakable"
    assert default_plan(MACHINES["xpu"])["prefill"]["backend"] == "tc_piecewise"


def test_the_json_plan_wins_over_flags() -> None:
    view = DefaultsView(cuda_graph_backend_decode="full", cuda_graph_config={"decode": {"backend": "disabled"}})
    assert requested(view) == {("decode", "backend"): "disabled"}
    assert locked(view) == {("decode", "backend")}


def test_phases_are_changed_apart() -> None:
    plan = default_plan(MACHINES["sm90"])
    assert with_phase(plan, "decode", max_bs=4)["prefill"] == plan["prefill"]
    assert {phase["backend"] for phase in without_graphs(plan).values()} == {"disabled"}


def test_a_plan_is_there_before_one_was_made() -> None:
    facts = MACHINES["sm90"]
    assert plan_of(DefaultsView(), facts) == default_plan(facts)
    assert plan_of(DefaultsView(cuda_graph_config={"decode": {"backend": "full"}}), facts) == default_plan(facts)


@given(st.integers(1, 20000))
def test_prefill_sizes_rise_to_the_largest(largest: int) -> None:
    sizes = prefill_sizes(largest)
    assert sizes == sorted(set(sizes))
    assert all(size <= largest for size in sizes)


@given(st.integers(1, 2048), st.booleans(), st.booleans())
def test_decode_sizes_rise_to_exactly_the_largest(largest: int, padding: bool, speculative: bool) -> None:
    sizes = decode_sizes(largest, padding=padding, speculative=speculative)
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == largest


@pytest.mark.parametrize("padding", [True, False])
def test_cpu_sizes_end_at_the_largest(padding: bool) -> None:
    assert cpu_sizes(100, padding=padding)[-1] == 100
