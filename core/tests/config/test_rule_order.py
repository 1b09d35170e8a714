"""The order of rules inside a stage, and what check_rules finds wrong with it."""

from __future__ import annotations

import time
from typing import Any

from sgl_core.api import Facts, ModelInfo, Rule, suggest
from sgl_core.config import RegisteredRule, ServerArgs, check_rules, resolve
from sgl_core.config.rule_order import ordered


def nothing(view: Any, facts: Facts, model: ModelInfo) -> list[Any]:
    return []


def a_rule(name: str, **parts: Any) -> RegisteredRule:
    return RegisteredRule(Rule(**{"name": name, "function": nothing, "stage": "memory", **parts}))


def order(*rules: RegisteredRule) -> list[str]:
    names = [registered.rule.name for registered in ordered(rules)]
    assert names == [registered.rule.name for registered in ordered(reversed(rules))]
    return names


def test_writers_come_before_those_that_change_and_these_before_readers() -> None:
    assert order(
        a_rule("a", reads=("page_size",)),
        a_rule("b", reads=("page_size",), writes=("page_size",)),
        a_rule("c", writes=("page_size",)),
    ) == ["c", "b", "a"]


def test_what_is_free_goes_by_name() -> None:
    assert order(a_rule("b"), a_rule("a"), a_rule("c")) == ["a", "b", "c"]


def test_stages_come_first() -> None:
    assert order(a_rule("a", stage="checks"), a_rule("b", stage="sources")) == ["b", "a"]


def test_declared_order_outweighs_reads_and_writes() -> None:
    reader = a_rule("z_reader", reads=("page_size",), before=("a_writer",))
    other = a_rule("b_reader", reads=("page_size",))
    writer = a_rule("a_writer", writes=("page_size",))
    assert order(reader, writer, other) == ["z_reader", "a_writer", "b_reader"]
    assert check_rules([reader, writer, other]) == []


def test_after_orders_rules_that_share_a_field() -> None:
    first = a_rule("b", reads=("page_size",), writes=("page_size",))
    second = a_rule("a", reads=("page_size",), writes=("page_size",), after=("b",))
    assert order(second, first) == ["b", "a"]
    assert check_rules([first, second]) == []


def test_two_writers_without_an_order_are_reported() -> None:
    problems = check_rules([a_rule("a", writes=("page_size",)), a_rule("b", writes=("page_size",))])
    assert problems == ["stage memory: a and b both write page_size with no declared order"]


def test_two_writers_that_never_meet_are_fine() -> None:
    assert (
        check_rules(
            [
                a_rule("a", writes=("page_size",), architectures=("X",)),
                a_rule("b", writes=("page_size",), architectures=("Y",)),
                a_rule("c", writes=("tp_size",), platforms=("cuda",)),
                a_rule("d", writes=("tp_size",), platforms=("cpu",)),
                a_rule("e", writes=("tp_size",), stage="checks"),
            ]
        )
        == []
    )


def test_a_cycle_is_reported_and_cut_the_same_way_every_time() -> None:
    rules = (
        a_rule("b", reads=("page_size",), writes=("tp_size",)),
        a_rule("a", reads=("tp_size",), writes=("page_size",)),
    )
    assert order(*rules) == ["a", "b"]
    (problem,) = check_rules(rules)
    assert "cycle" in problem


def test_names_that_no_rule_has_and_orders_against_the_stages_are_reported() -> None:
    problems = check_rules(
        [
            a_rule("a", after=("nobody",)),
            a_rule("b", after=("c",)),
            a_rule("c", stage="checks"),
            a_rule("d", before=("e",)),
            a_rule("e", stage="sources"),
        ]
    )
    assert len(problems) == 3
    assert "which no rule has" in problems[0]
    assert "contradicts the order of stages" in problems[1]


def dummy_rules(count: int) -> list[Rule]:
    def act(view: Any, facts: Facts, model: ModelInfo) -> Any:
        if view.page_size is None:
            yield suggest("page_size", 16, because="benchmark")

    return [
        Rule(name=f"r{n}", function=act, stage="memory", reads=("page_size", "tp_size"), writes=("page_size",))
        for n in range(count)
    ]


def seconds(count: int) -> float:
    rules = dummy_rules(count)
    args, facts, model = ServerArgs.of(), Facts(platform="cpu"), ModelInfo(architecture="X")
    best = 1e9
    for _ in range(15):
        start = time.process_time()
        resolve(args, facts, model, rules=rules)
        best = min(best, time.process_time() - start)
    return best


def test_the_cost_grows_linearly_with_the_rules() -> None:
    measured = []
    for _ in range(5):  # other processes may disturb single measurements
        small, large = seconds(250), seconds(1000)
        measured.append(f"250 rules {small * 1000:.2f} ms, 1000 rules {large * 1000:.2f} ms")
        if large < 8 * small:
            return
    raise AssertionError(measured)
