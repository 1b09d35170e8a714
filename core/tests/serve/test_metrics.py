"""Metrics: counters that add up however a request ends, HTTP counts, buckets, what plugins add, and the dashboard's names."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Counter
from prometheus_client.parser import text_string_to_metric_families

from sgl_core.config import ConfigError
from sgl_core.engine.messages import Fatal, Generate, Output, Stats
from sgl_core.serve.core.metric_shapes import TOKENS, token_buckets
from sgl_core.serve.core.metrics import Metrics, page

pytestmark = pytest.mark.anyio
TEXT = "/v1/completions"
DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana" / "sgl.json"


def values(text: str) -> dict[str, float]:
    """Sums over the labels that tests do not name: ``name`` and ``name{label=value}`` for each label."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            for key in (sample.name, *(f"{sample.name}{{{k}={v}}}" for k, v in sample.labels.items())):
                found[key] = found.get(key, 0.0) + sample.value
    return found


async def until(condition: Any) -> None:
    for _ in range(5000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("waited five seconds in vain")


@pytest.mark.field_case("202")
async def test_case_202_twenty_requests_add_up(serve: Any, tokenizer: Any) -> None:
    a = tokenizer.encode("a", False)

    def script(message: Generate) -> list[Output]:
        if message.sampling.seed == 1:  # stays silent until it is aborted
            return []
        if message.sampling.seed == 2:
            return [Output(rid=message.rid, finish_reason="error", message="queue full", status=503)]
        return [Output(rid=message.rid, token_ids=a), Output(rid=message.rid, token_ids=a, finish_reason="length")]

    async with serve(script) as api:
        for _ in range(6):
            assert (await api.post(TEXT, {"prompt": "hi"})).status_code == 200
        for _ in range(2):
            await api.events(TEXT, {"prompt": "hi"})
        assert (await api.post(TEXT, {"prompt": "hi", "n": 2})).status_code == 200
        stuck = [asyncio.create_task(api.post(TEXT, {"prompt": "hi", "seed": 1})) for _ in range(5)]
        await until(lambda: api.service.front.running == 5)
        mid = values((await api.client.get("/metrics")).text)
        assert mid["sglang:http_requests_active{endpoint=/v1/completions}"] == 5
        await api.post("/abort_request", {"abort_all": True})
        await asyncio.gather(*stuck)
        assert (await api.post(TEXT, {"prompt": "hi", "seed": 2})).status_code == 503
        assert (await api.post(TEXT, {"prompt": " "})).status_code == 400
        assert (await api.post(TEXT, {"prompt": "hi", "top_p": 7})).status_code == 400
        assert (await api.post("/v1/nothing", {})).status_code == 404
        api.channel.push(Stats(steps=5, retractions=3, prompt_tokens=40, cached_prompt_tokens=10, generated_tokens=18))
        await until(lambda: api.service.front.stats.steps == 5)
        api.channel.push(Stats(steps=1, retractions=1, generated_tokens=2))  # another worker's: counters do not fall
        await until(lambda: api.service.front.stats.steps == 1)
        found = values((await api.client.get("/metrics")).text)
    accepted = found["sglang:num_requests_total"]
    assert accepted == 16
    assert found["sglang:num_finished_requests_total{finish_reason=length}"] == 10
    assert found["sglang:num_aborted_requests_total"] == 5
    assert found["sglang:num_failed_requests_total"] == 1
    assert accepted == sum(found[f"sglang:num_{how}_requests_total"] for how in ("finished", "aborted", "failed"))
    assert (
        found["sglang:num_refused_requests_total{status_code=400}"] == found["sglang:num_refused_requests_total"] == 2
    )
    assert found["sglang:time_to_first_token_seconds_count"] == found["sglang:e2e_request_latency_seconds_count"] == 10
    assert found["sglang:generation_tokens_total"] == 20
    assert found["sglang:num_retracted_requests_total"] == 4
    assert found["sglang:realtime_tokens_total{mode=decode}"] == 20
    assert found["sglang:realtime_tokens_total{mode=prefill_cache}"] == 10
    assert found["sglang:realtime_tokens_total{mode=prefill_compute}"] == 30
    assert found["sglang:http_responses_total{status_code=503}"] == 1
    assert found["sglang:http_responses_total{endpoint=unknown}"] == 1
    assert found["sglang:http_requests_active{endpoint=/v1/completions}"] == 0


async def test_a_dead_workers_requests_count_as_failed(serve: Any) -> None:
    async with serve(silent=True) as api:
        running = asyncio.create_task(api.post(TEXT, {"prompt": "hi", "n": 3}))
        await until(lambda: api.service.front.running == 3)
        api.channel.push(Fatal(message="boom"))
        assert (await running).status_code == 503
        found = values((await api.client.get("/metrics")).text)
        assert found["sglang:num_failed_requests_total"] == found["sglang:num_requests_total"] == 3
        assert (await api.post(TEXT, {"prompt": "hi"})).status_code == 503
        assert values((await api.client.get("/metrics")).text)["sglang:num_refused_requests_total"] == 1


async def test_an_observer_that_fails_stops_nothing(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve() as api:
        monkeypatch.setattr(api.service.metrics, "_sets", None)
        assert (await api.post(TEXT, {"prompt": "hi", "max_tokens": 2})).status_code == 200


def test_buckets_by_rule() -> None:
    assert token_buckets(None, "f") == token_buckets(["default"], "f") == TOKENS
    assert token_buckets(["custom", "5", "1", "5"], "f") == (1, 5)
    assert token_buckets(["tse", "1000", "2", "4"], "f") == (996, 998, 1000, 1002, 1004)
    for wrong in (["tse", "1", "1", "1"], ["custom"], ["custom", "x"], ["default", "1"], ["other"]):
        with pytest.raises(ConfigError, match="f: "):
            token_buckets(wrong, "f")


def test_several_models_share_a_page_with_one_family_each() -> None:
    text = page([Metrics("a"), Metrics("b")]).decode()
    assert text.count("# TYPE sglang:num_requests_total counter") == 1
    assert "_created" not in text
    found = values(text)
    assert "sglang:num_requests_total{model_name=a}" in found
    assert "sglang:num_requests_total{model_name=b}" in found


def test_a_plugins_collector_that_fails_costs_only_itself() -> None:
    class Bad:
        def collect(self) -> Any:
            raise RuntimeError("on purpose")

        def describe(self) -> list[Any]:
            return []

    metrics = Metrics("a")
    Counter("vendor_things", "Things.", registry=metrics.plugins).inc()
    assert values(metrics.text().decode())["vendor_things_total"] == 1
    metrics.plugins.register(Bad())  # type: ignore[arg-type]
    assert values(metrics.text().decode())["sglang:num_requests_total"] == 0


async def test_every_metric_of_the_dashboard_exists(serve: Any) -> None:
    text = DASHBOARD.read_text()
    dashboard = json.loads(text)
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    wanted = {name for query in queries for name in re.findall(r"sglang:\w+", query)}
    assert len(wanted) > 15
    async with serve() as api:
        await api.post(TEXT, {"prompt": "hi"})
        await api.post(TEXT, {"prompt": ""})
        text = (await api.client.get("/metrics")).text
    names = {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}
    assert wanted <= names
    assert all(panel["title"] for panel in dashboard["panels"])
