"""Prometheus metrics under the reference system's names, so that existing dashboards work. One object per served model."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from sgl_core.engine.messages import Stats

from .choice import Choice
from .events import Event, Failed, Finished
from .metric_shapes import DELIVERY, FIRST_TOKEN, GAP, TOKENS, WHOLE, Gaps
from .observer import Observer
from .run import Run
from .worker_metrics import WorkerMetrics

log = logging.getLogger("sgl.metrics")

ACCEPTED: ContextVar[list[int] | None] = ContextVar("sgl_accepted", default=None)
"""Inside an HTTP request: where the number of choices that it started is left, to tell refusals from later failures."""


class Metrics(Observer):
    """Observes one front, or one after the other of the same model.

    Each choice counts once: ``num_requests_total`` = ``num_finished_requests_total`` + ``num_aborted_requests_total`` +
    ``num_failed_requests_total`` + those that run. What was never accepted counts in ``num_refused_requests_total`` only.
    """

    def __init__(
        self,
        model: str,
        extra_labels: Mapping[str, str] | None = None,
        *,
        ttft: Sequence[float] = (),
        gaps: Sequence[float] = (),
        latency: Sequence[float] = (),
        prompt: Sequence[float] = TOKENS,
        generation: Sequence[float] = TOKENS,
    ) -> None:
        self.registry = CollectorRegistry()
        self.plugins = CollectorRegistry()
        """What plugins register (hook ``sgl_metrics``); a collector of theirs that fails costs only their own figures."""
        self.extra_labels = dict(extra_labels or {})
        self._labels = labels = {"model_name": model, **self.extra_labels}
        self.worker = WorkerMetrics(self.registry, labels)
        self._prompt = self._by_stream("prompt_tokens_total", "Prompt tokens of finished requests.")
        self._output = self._by_stream("generation_tokens_total", "Tokens generated.")
        self._requests = self._by_stream("num_requests_total", "Requests accepted, by how they are answered.")
        self._cached = self._counter("cached_tokens_total", "Prompt tokens found in a cache.", "cache_source").labels(
            **labels, cache_source="device"
        )
        self._constrained = self._counter("num_so_requests_total", "Requests with an output constraint.")
        self._finished = self._counter(
            "num_finished_requests_total", "Requests that ended by themselves, by finish reason.", "finish_reason"
        )
        self._aborted = self._counter(
            "num_aborted_requests_total", "Requests whose client left or that were aborted."
        ).labels(**labels)
        self._failed = self._counter("num_failed_requests_total", "Accepted requests that ended with an error.").labels(
            **labels
        )
        self._refused = self._counter(
            "num_refused_requests_total", "Requests that were not accepted, by HTTP status.", "status_code"
        )
        self._ttft = self._histogram("time_to_first_token_seconds", "Time to first token.", ttft or FIRST_TOKEN, True)
        self._e2e = self._histogram("e2e_request_latency_seconds", "Time of finished requests.", latency or WHOLE, True)
        self._prompt_sizes = self._histogram("prompt_tokens_histogram", "Prompt length in tokens.", prompt)[False]
        self._uncached = self._histogram(
            "uncached_prompt_tokens_histogram", "Prompt tokens that had to be computed.", prompt
        )[False]
        self._output_sizes = self._histogram("generation_tokens_histogram", "Answer length in tokens.", generation)[
            False
        ]
        self._gaps = Gaps("sglang:inter_token_latency_seconds", "Time between tokens.", labels, gaps or GAP)
        self.registry.register(self._gaps)
        about = "Time from a step's outputs leaving the worker until the last of their streams was written."
        self._delivery = Gaps("sgl:delivery_seconds", about, labels, DELIVERY)
        self.registry.register(self._delivery)

    def _counter(self, name: str, text: str, *more: str) -> Counter:
        return Counter(f"sglang:{name}", text, [*self._labels, *more], registry=self.registry)

    def _by_stream(self, name: str, text: str) -> dict[bool, Counter]:
        counter = self._counter(name, text, "is_streaming")
        return {flag: counter.labels(**self._labels, is_streaming=str(flag).lower()) for flag in (False, True)}

    def _histogram(
        self, name: str, text: str, buckets: Iterable[float], by_stream: bool = False
    ) -> dict[bool, Histogram]:
        names = [*self._labels, *(["is_streaming"] if by_stream else [])]
        histogram = Histogram(f"sglang:{name}", text, names, buckets=sorted(buckets), registry=self.registry)
        if not by_stream:
            return dict.fromkeys((False, True), histogram.labels(**self._labels))
        return {flag: histogram.labels(**self._labels, is_streaming=str(flag).lower()) for flag in (False, True)}

    def text(self) -> bytes:
        """The page of ``/metrics``."""
        return page([self])

    def refused(self, status: int) -> None:
        """A request to generate was answered with an error before it was accepted."""
        self._refused.labels(**self._labels, status_code=str(status)).inc()

    # -- the front's Observer -----------------------------------------------------------------------------------------

    def ready(self, capacity: Mapping[str, Any]) -> None:
        self.worker.ready(capacity)

    def started(self, run: Run) -> None:
        accepted = ACCEPTED.get()
        if accepted is not None:
            accepted.append(len(run.choices))
        for choice in run.choices:
            request = choice.request
            if request.measured:
                self._requests[request.stream].inc()
                if request.grammar is not None:
                    self._constrained.labels(**self._labels).inc()

    def outputs(self, came: Sequence[tuple[Choice, int]], now: float) -> None:
        for choice, new_tokens in came:
            if not new_tokens or not choice.request.measured:
                continue
            if choice.tokens == new_tokens:
                self._ttft[choice.request.stream].observe(now - choice.arrived)
            else:
                self._gaps.observe((now - choice.before) / new_tokens, new_tokens)

    def delivered(self, seconds: float) -> None:
        self._delivery.observe(seconds, 1)

    def finished(self, choice: Choice, event: Event | None, now: float) -> None:
        request = choice.request
        if not request.measured:
            return
        self._output[request.stream].inc(choice.tokens)
        if isinstance(event, Failed):
            self._failed.inc()
            return
        if not isinstance(event, Finished) or event.reason == "abort":
            self._aborted.inc()
            return
        prompt = len(request.input_ids)
        self._finished.labels(**self._labels, finish_reason=event.reason).inc()
        self._prompt[request.stream].inc(prompt)
        self._cached.inc(choice.cached_tokens)
        self._e2e[request.stream].observe(now - choice.arrived)
        self._prompt_sizes.observe(prompt)
        self._uncached.observe(max(prompt - choice.cached_tokens, 0))
        self._output_sizes.observe(choice.tokens)

    def stats(self, stats: Stats) -> None:
        self.worker.stats(stats)

    def died(self, why: str) -> None:
        self.worker.died()


class _CpuTime(Collector):
    """Processor time of this process."""

    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily(
            "sglang:process_cpu_seconds", "Processor time of the front process.", labels=["component"]
        )
        family.add_metric(["tokenizer"], time.process_time())
        yield family


class _Joined(Collector):
    """Several registries as one: families of one name are one family. When counters were made is left out: nobody reads it."""

    def __init__(self, registries: Sequence[Collector | CollectorRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterator[Metric]:
        found: dict[str, Metric] = {}
        for registry in self._registries:
            for family in registry.collect():
                family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
                first = found.setdefault(family.name, family)
                if first is not family:
                    first.samples += family.samples
        yield from found.values()


def page(metrics: Sequence[Metrics], *more: CollectorRegistry) -> bytes:
    """One page of the metrics of several models, and of ``more`` registries."""
    text = _text([*(entry.registry for entry in metrics), *more, _CpuTime()])
    try:
        return text + _text([entry.plugins for entry in metrics])
    except Exception:
        log.exception("a plugin's metrics could not be read")
        return text


def _text(registries: Sequence[Collector | CollectorRegistry]) -> bytes:
    joined = CollectorRegistry()
    joined.register(_Joined(registries))
    return generate_latest(joined)
