"""The figures of a run, the check of bound answers, the named scenarios and the machine's own account."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from sgl_core.cli.bench.compare_view import doubts, number, table
from sgl_core.cli.bench.figures import FIGURES, figures, fits, medians, percentile
from sgl_core.cli.bench.machine import Snapshot, cost, describe, tree
from sgl_core.cli.bench.measure import Record
from sgl_core.cli.bench.scenarios import SCENARIOS, SCHEMA, conversations, named

GOOD: dict[str, Any] = {"title": "A", "year": 1999, "kind": "poem", "in_print": True, "themes": ["sea"]}


def test_figures_of_two_answers() -> None:
    records = [
        Record(sent=0, first=0.5, last=2.5, gaps=[0.5, 1.5], prompt_tokens=100, output_tokens=5, cached_tokens=30),
        Record(sent=0, first=1.5, last=2.5, gaps=[1.0], prompt_tokens=100, output_tokens=3),
        Record(sent=0, error="gone"),
    ]
    found = figures(named("decode1")[0], records, 4.0)
    assert found["failed"] == 1
    assert found["output_tokens_per_s"] == 2.0
    assert found["requests_per_s"] == 0.5
    assert found["decode_tokens_per_s"] == pytest.approx((4 / 2 + 2 / 1) / 2)
    assert found["prompt_tokens_per_s"] == 100.0
    assert (found["ttft_p50_ms"], found["ttft_p99_ms"], found["itl_p99_ms"]) == (500, 1500, 1500)
    assert found["cached_tokens"] == 30


def test_an_answer_without_text_counts_from_its_end() -> None:
    found = figures(named("prefill")[0], [Record(sent=0, last=2.0, prompt_tokens=100, output_tokens=1)], 2.0)
    assert found["prompt_tokens_per_s"] == 50
    assert "decode_tokens_per_s" not in found


def test_nothing_measured_is_nothing_claimed() -> None:
    assert set(figures(named("decode1")[0], [Record(sent=0, error="x")], 1.0)) == {"requests", "failed", "seconds"}


def test_medians_skip_runs_without_the_figure() -> None:
    assert medians([{"a": 1.0, "b": 5.0}, {"a": 3.0}, {"a": 2.0}]) == {"a": 2.0, "b": 5.0}
    assert [percentile([3, 1, 2], percent) for percent in (1, 50, 99)] == [1, 2, 3]


@pytest.mark.parametrize(
    "change",
    [
        {"title": "x" * 25},
        {"year": 1899},
        {"year": True},
        {"kind": "song"},
        {"in_print": 1},
        {"themes": []},
        {"themes": [1]},
        {"more": 1},
    ],
)
def test_answers_that_do_not_fit(change: dict[str, Any]) -> None:
    assert fits(SCHEMA, json.dumps(GOOD))
    assert not fits(SCHEMA, json.dumps(GOOD | change))
    assert not fits(SCHEMA, json.dumps(GOOD)[:-1])


def test_the_check_agrees_with_the_standard_one() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(dict(SCHEMA))
    jsonschema.validate(GOOD, dict(SCHEMA))


def test_scenarios_are_whole() -> None:
    assert named("all") == SCENARIOS
    assert [scenario.name for scenario in named("json, decode1")] == ["json", "decode1"]
    for scenario in SCENARIOS:
        assert set(scenario.shows) <= set(FIGURES)
        assert scenario.shortened().name == scenario.name
        first = conversations(scenario, "0/0")
        assert first == conversations(scenario, "0/0") != conversations(scenario, "0/1")
        assert len(first) == scenario.chats
        assert {len(chat.system.split()) for chat in first} == {scenario.system}
        assert (len({chat.system for chat in first}) == 1) == (scenario.same_system or scenario.chats == 1)
    with pytest.raises(ValueError, match="no scenario is named"):
        named(" ,")


def test_the_machine_is_accounted_for() -> None:
    before = Snapshot.take(os.getpid())
    assert before is not None
    assert before.rss_mb > 1
    assert before.pss_mb <= before.rss_mb
    assert before.tree > 0
    found = cost(before, Snapshot.take(os.getpid()), 1.0)
    assert set(found) == {"client_cpu_s", "server_cpu_s", "rss_mb", "pss_mb", "others_share"}
    assert tree(os.getpid())[0] == os.getpid()
    assert Snapshot.take(2**30) is None
    assert cost(None, None, 1.0) == {}
    assert describe()["cores"] >= 1


def test_tables_and_doubts() -> None:
    assert table(["a", "runs"], [("x", ["1", "1 2"]), ("long", ["22", ""])]) == [
        "         a  runs",
        "  x      1  1 2",
        "  long  22",
    ]
    assert [number(value) for value in (None, 1234.5, 99.44, 0.0123)] == ["-", "1,234", "99.4", "0.0123"]
    part = {"medians": {"a": {"others_share": 0.4}}, "errors": {}, "output_tokens_wanted": 5}
    assert doubts(part) == ["a: others used 40% of the machine meanwhile"]
