"""Prometheus metrics under the reference system's names, so that existing dashboards work. One object per front."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from sgl_core.engine.messages import Stats

from .choice import Choice
from .events import Event, Failed, Finished
from .run import Run

_LATENCY = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
_GAP = (
    0.002,
    0.004,
    0.006,
    0.008,
    0.01,
    0.015,
    0.02,
    0.025,
    0.03,
    0.035,
    0.04,
    0.06,
    0.08,
    0.1,
    0.2,
    0.4,
    0.6,
    0.8,
    1,
    2,
    4,
    6,
    8,
)
_TOKENS = (
    100,
    300,
    500,
    700,
    1000,
    1500,
    2000,
    3000,
    4000,
    5000,
    6000,
    7000,
    8000,
    9000,
    10000,
    12000,
    15000,
    20000,
    30000,
    50000,
)


class Gaps(Collector):
    """A histogram cheap enough for every token: the client library's own costs more than the rest of a token's way."""

    def __init__(self, name: str, help_text: str, labels: Mapping[str, str], buckets: Sequence[float]) -> None:
        self._name, self._help, self._labels = name, help_text, dict(labels)
        self._bounds = tuple(sorted(buckets))
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float, times: int) -> None:
        """``times`` gaps of this length."""
        self._counts[bisect_left(self._bounds, seconds)] += times
        self._sum += seconds * times

    def collect(self) -> Iterator[HistogramMetricFamily]:
        total, buckets = 0, []
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        family = HistogramMetricFamily(self._name, self._help, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), buckets, self._sum)
        yield family


class Metrics:
    """Observes the front. Every accepted request counts once in ``num_requests_total``, aborted and failed ones also in their own."""

    def __init__(
        self,
        model: str,
        extra_labels: Mapping[str, str] | None = None,
        *,
        ttft: Sequence[float] = (),
        gaps: Sequence[float] = (),
        latency: Sequence[float] = (),
    ) -> None:
        self.registry = CollectorRegistry()
        labels = {"model_name": model, **(extra_labels or {})}
        worker = {**labels, "engine_type": "unified", "tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0"}
        self._labels, self._worker = labels, worker
        self._gauges = {name: self._gauge(name, text) for name, text in _GAUGES.items()}
        self._retracted = self._counter("num_retracted_requests_total", "Requests retracted to free pages.", worker)
        self._prompt = self._counter("prompt_tokens_total", "Prompt tokens of finished requests.", labels, True)
        self._output = self._counter("generation_tokens_total", "Tokens generated.", labels, True)
        self._cached = self._counter("cached_tokens_total", "Prompt tokens found in the prefix cache.", labels)
        self._requests = self._counter(
            "num_requests_total", "Requests accepted, by how they are answered.", labels, True
        )
        self._aborted = self._counter(
            "num_aborted_requests_total", "Requests whose client left or that were aborted.", labels
        )
        self._failed = self._counter("num_failed_requests_total", "Requests that ended with an error.", labels)
        self._ttft = self._histogram("time_to_first_token_seconds", "Time to first token.", ttft or _LATENCY)
        self._e2e = self._histogram("e2e_request_latency_seconds", "Time of finished requests.", latency or _LATENCY)
        self._prompt_sizes = self._histogram("prompt_tokens_histogram", "Prompt length in tokens.", _TOKENS)
        self._output_sizes = self._histogram("generation_tokens_histogram", "Answer length in tokens.", _TOKENS)
        self._gaps = Gaps("sglang:inter_token_latency_seconds", "Time between tokens.", labels, gaps or _GAP)
        self.registry.register(self._gaps)
        self._page_size = 1
        self._retractions_seen = 0
        self._throughput_from = (0.0, 0)

    def _gauge(self, name: str, text: str) -> Gauge:
        gauge = Gauge(f"sglang:{name}", text, list(self._worker), registry=self.registry)
        return gauge.labels(**self._worker)

    def _counter(self, name: str, text: str, labels: Mapping[str, str], streaming: bool = False) -> dict[bool, Counter]:
        names = [*labels, "is_streaming"] if streaming else list(labels)
        counter = Counter(f"sglang:{name}", text, names, registry=self.registry)
        if not streaming:
            return dict.fromkeys((False, True), counter.labels(**labels))
        return {flag: counter.labels(**labels, is_streaming=str(flag).lower()) for flag in (False, True)}

    def _histogram(self, name: str, text: str, buckets: Iterable[float]) -> Histogram:
        histogram = Histogram(
            f"sglang:{name}", text, list(self._labels), buckets=sorted(buckets), registry=self.registry
        )
        return histogram.labels(**self._labels)

    def text(self) -> bytes:
        """The page of ``/metrics``."""
        return generate_latest(self.registry)

    # -- the front's Observer -----------------------------------------------------------------------------------------

    def ready(self, capacity: Mapping[str, Any]) -> None:
        self._page_size = int(capacity.get("page_size") or 1)

    def started(self, run: Run) -> None:
        for choice in run.choices:
            if choice.request.measured:
                self._requests[choice.request.stream].inc()

    def outputs(self, choice: Choice, new_tokens: int, now: float) -> None:
        if not new_tokens or not choice.request.measured:
            return
        if choice.tokens == new_tokens:
            self._ttft.observe(now - choice.arrived)
        else:
            self._gaps.observe((now - choice.before) / new_tokens, new_tokens)

    def finished(self, choice: Choice, event: Event | None, now: float) -> None:
        request = choice.request
        if not request.measured:
            return
        self._output[request.stream].inc(choice.tokens)
        if isinstance(event, Failed):
            self._failed[False].inc()
            return
        if event is None or (isinstance(event, Finished) and event.reason == "abort"):
            self._aborted[False].inc()
            return
        self._prompt[request.stream].inc(len(request.input_ids))
        self._cached[False].inc(choice.cached_tokens)
        self._e2e.observe(now - choice.arrived)
        self._prompt_sizes.observe(len(request.input_ids))
        self._output_sizes.observe(choice.tokens)

    def stats(self, stats: Stats) -> None:
        total = max(stats.total_pages, 1)
        gauges = self._gauges
        gauges["num_running_reqs"].set(stats.running)
        gauges["num_queue_reqs"].set(stats.waiting)
        gauges["token_usage"].set(stats.used_pages / total)
        gauges["num_used_tokens"].set(stats.used_pages * self._page_size)
        gauges["max_total_num_tokens"].set(stats.total_pages * self._page_size)
        gauges["kv_available_tokens"].set(stats.free_pages * self._page_size)
        gauges["kv_evictable_tokens"].set(stats.cached_pages * self._page_size)
        gauges["cache_hit_rate"].set(stats.cached_prompt_tokens / max(stats.prompt_tokens, 1))
        gauges["gen_throughput"].set(self._rate(stats))
        if stats.retractions > self._retractions_seen:
            self._retracted[False].inc(stats.retractions - self._retractions_seen)
            self._retractions_seen = stats.retractions

    def _rate(self, stats: Stats) -> float:
        """Tokens per second of worker time since the last report."""
        seconds, tokens = self._throughput_from
        self._throughput_from = (stats.step_seconds, stats.generated_tokens)
        spent = stats.step_seconds - seconds
        return (stats.generated_tokens - tokens) / spent if spent > 0 else 0.0


_GAUGES = {
    "num_running_reqs": "Requests running.",
    "num_queue_reqs": "Requests waiting.",
    "token_usage": "Used share of the KV pool.",
    "num_used_tokens": "Tokens of the KV pool in use.",
    "max_total_num_tokens": "Tokens the KV pool holds.",
    "kv_available_tokens": "Free tokens of the KV pool.",
    "kv_evictable_tokens": "Tokens of the KV pool held by the prefix cache alone.",
    "cache_hit_rate": "Share of prompt tokens found in the prefix cache.",
    "gen_throughput": "Tokens generated per second.",
}
