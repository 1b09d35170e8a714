"""Metric labels of clients, the queue's histogram, and the file of each request's figures."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sgl_core.config import ConfigError
from sgl_core.engine.messages import Generate, Output
from sgl_core.serve.core import metric_figures
from sgl_core.serve.core.custom_labels import SENT, custom_labels
from sgl_core.serve.core.metrics import Metrics
from sgl_core.serve.core.metrics_file import MetricsFile

pytestmark = pytest.mark.anyio
TEXT = "/v1/completions"
ALLOWED = custom_labels("X-Custom-Labels", ["team", "tier"])


def samples(text: str, name: str) -> dict[tuple[str, str], float]:
    """Values by the labels team and tier."""
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name:
                key = sample.labels["team"], sample.labels["tier"]
                found[key] = found.get(key, 0.0) + sample.value
    return found


def queued(message: Generate) -> Iterable[Output]:
    yield Output(rid=message.rid, token_ids=[5], queue_seconds=2.5, cached_tokens=1)
    yield Output(rid=message.rid, token_ids=[5], finish_reason="length")


async def ask(api: Any, header: Any = None) -> None:
    headers = {} if header is None else {"x-custom-labels": header if isinstance(header, str) else json.dumps(header)}
    response = await api.client.post(TEXT, json={"prompt": "hi"}, headers=headers)
    assert response.status_code == 200


async def test_figures_of_each_set_of_labels(serve: Any) -> None:
    metrics = Metrics("tiny", custom=ALLOWED)
    async with serve(queued, metrics=metrics) as api:
        api.service.front.observers[:] = [metrics]
        await ask(api)
        for header in (
            {"team": "a"},
            {"team": "a", "other": "x"},
            {"team": "b", "tier": 3},
            "[1]",
            "no json",
            {"team": {}},
        ):
            await ask(api, header)
        text = (await api.client.get("/metrics")).text
        wanted = {("", ""): 4.0, ("a", ""): 2.0, ("b", "3"): 1.0}
        for name in ("num_requests_total", "num_finished_requests_total", "queue_time_seconds_count"):
            assert samples(text, f"sglang:{name}") == wanted
        assert samples(text, "sglang:queue_time_seconds_sum")[("b", "3")] == 2.5
        assert samples(text, "sglang:inter_token_latency_seconds_count") == wanted
        assert text.count("# TYPE sglang:inter_token_latency_seconds ") == 1


def test_values_are_cut_and_sets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ALLOWED is not None
    header = json.dumps({"team": "x" * 999, "tier": True}).encode()
    assert ALLOWED.read([(b"x-custom-labels", header)]) == {"team": "x" * 128}
    assert ALLOWED.read([(b"x-custom-labels", b"{" * 9000)]) == {}
    assert ALLOWED.read([]) == {}
    monkeypatch.setattr(metric_figures, "MOST", 2)
    metrics = Metrics("tiny", custom=ALLOWED)
    sets = metrics._sets
    figures = [sets.of({"team": name}) for name in ("a", "b", "c", "a")]
    assert figures[0] is figures[3] is not figures[1]
    assert figures[2] is sets.plain


@pytest.mark.parametrize(
    ("names", "message"),
    [(["a-b"], "no name"), (["__a"], "no name"), (["model_name"], "already"), (["mine"], "already")],
)
def test_names_that_cannot_be_labels(names: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        custom_labels("h", names, ["mine"])


def test_without_allowed_names_none_are_read() -> None:
    assert custom_labels("x-custom-labels", None) is None
    assert SENT.get() is None


async def test_each_request_is_a_line_of_the_hour_s_file(serve: Any, tmp_path: Path) -> None:
    now = [1_700_000_000.0]
    file = MetricsFile(str(tmp_path / "figures"), "tiny", clock=lambda: now[0])
    async with serve(queued) as api:
        api.service.front.observers.append(file)
        await api.post(TEXT, {"prompt": "hi", "temperature": 0.5})
        now[0] += 3600
        await api.post(TEXT, {"prompt": "hi", "n": 2})
        await api.client.get("/health_generate")
    file.close()
    first, second = sorted((tmp_path / "figures").iterdir())
    assert first.name.startswith("sglang-request-metrics-2023111")
    (line,) = [json.loads(text) for text in first.read_text().splitlines()]
    assert (line["prompt_tokens"], line["completion_tokens"], line["cached_tokens"]) == (2, 2, 1)
    assert line["finish_reason"] == "length"
    assert line["queue_time"] == 2.5
    assert 0 < line["time_to_first_token"] <= line["e2e_latency"]
    assert json.loads(line["request_parameters"])["sampling_params"]["temperature"] == 0.5
    assert "hi" not in first.read_text()
    assert len(second.read_text().splitlines()) == 2


def test_a_folder_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (None, str(tmp_path / "file" / "x")):
        with pytest.raises(ConfigError, match="export_metrics_to_file"):
            MetricsFile(folder, "m")
