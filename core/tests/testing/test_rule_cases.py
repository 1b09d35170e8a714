"""The table form of rule tests: it tells what a rule answers, and finds rules that break their promises."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, set_env, suggest
from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase


@rule(stage="features", reads=("page_size", "pp_size"), writes=("page_size",))
def even_pages(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Pages are even."""
    yield require(view.pp_size == 1, "one stage", kind="AssertionError")
    if view.page_size is None:
        yield suggest("page_size", 2, "even")
        yield set_env("PAGES", "2", "even")
    elif view.page_size % 2:
        yield force("page_size", view.page_size + 1, "even")


@rule(stage="features")
def hidden_write(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Writes what it does not announce."""
    yield suggest("page_size", 2, "hidden")


@pytest.mark.parametrize(
    "case",
    [
        RuleCase(even_pages, {"page_size": 2}, expected_env={"PAGES": "2"}),
        RuleCase(even_pages, {"page_size": 4}, page_size=3),
        RuleCase(even_pages, {"page_size": 6}, decided={"page_size": 5}),
        RuleCase(even_pages, {}, page_size=4),
        RuleCase(even_pages, "AssertionError", pp_size=2),
    ],
    ids=repr,
)
def test_a_case_that_holds(case: RuleCase) -> None:
    case.check(Registries())


def test_a_case_that_does_not_hold() -> None:
    with pytest.raises(AssertionError, match="instead of"):
        RuleCase(even_pages, {"page_size": 3}).check(Registries())


def test_an_unannounced_write_is_found() -> None:
    with pytest.raises(AssertionError, match="does not announce"):
        RuleCase(hidden_write, {"page_size": 2}).check(Registries())


def test_machines_differ() -> None:
    assert RuleCase(even_pages, {}, machine="sm100").facts.arch == 100
    assert RuleCase(even_pages, {}, machine="npu", env={"A": "1"}).facts.env == {"A": "1"}
