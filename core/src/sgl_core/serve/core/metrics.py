"""Prometheus metrics under the reference system's names, so that existing dashboards work. One object per served model."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from sgl_core.engine.messages import Stats

from .choice import Choice
from .custom_labels import SENT, CustomLabels
from .events import Event, Failed, Finished
from .metric_figures import Buckets, Families, FigureSets
from .metric_shapes import DELIVERY, Gaps
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
        buckets: Buckets | None = None,
        custom: CustomLabels | None = None,
    ) -> None:
        self.registry = CollectorRegistry()
        self.plugins = CollectorRegistry()
        """What plugins register (hook ``sgl_metrics``); a collector of theirs that fails costs only their own figures."""
        self.extra_labels = dict(extra_labels or {})
        self.custom = custom
        self._labels = labels = {"model_name": model, **self.extra_labels}
        self.worker = WorkerMetrics(self.registry, labels)
        names = custom.names if custom is not None else ()
        self._sets = FigureSets(Families(self.registry, labels, names, buckets or Buckets()))
        self._refused = Counter(
            "sglang:num_refused_requests_total",
            "Requests that were not accepted, by HTTP status.",
            [*labels, "status_code"],
            registry=self.registry,
        )
        about = "Time from a step's outputs leaving the worker until the last of their streams was written."
        self._delivery = Gaps("sgl:delivery_seconds", about, labels, DELIVERY)
        self.registry.register(self._delivery)

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
        sent = SENT.get()
        for choice in run.choices:
            request = choice.request
            if not request.measured:
                continue
            choice.labels = sent
            figures = self._sets.of(sent)
            figures.requests[request.stream].inc()
            if request.grammar is not None:
                figures.constrained().inc()

    def outputs(self, came: Sequence[tuple[Choice, int]], now: float) -> None:
        for choice, new_tokens in came:
            if not new_tokens or not choice.request.measured:
                continue
            figures = self._sets.of(choice.labels)
            if choice.tokens == new_tokens:
                figures.ttft[choice.request.stream].observe(now - choice.arrived)
                figures.queue.observe(choice.queue_seconds)
            else:
                figures.gaps.observe((now - choice.before) / new_tokens, new_tokens)

    def delivered(self, seconds: float) -> None:
        self._delivery.observe(seconds, 1)

    def finished(self, choice: Choice, event: Event | None, now: float) -> None:
        request = choice.request
        if not request.measured:
            return
        figures = self._sets.of(choice.labels)
        figures.output[request.stream].inc(choice.tokens)
        if isinstance(event, Failed):
            figures.failed.inc()
            return
        if not isinstance(event, Finished) or event.reason == "abort":
            figures.aborted.inc()
            return
        if request.embed:
            figures.queue.observe(choice.queue_seconds)
        prompt = len(request.input_ids)
        figures.finished(event.reason).inc()
        figures.prompt[request.stream].inc(prompt)
        figures.cached.inc(choice.cached_tokens)
        figures.e2e[request.stream].observe(now - choice.arrived)
        figures.prompt_sizes.observe(prompt)
        figures.uncached.observe(max(prompt - choice.cached_tokens, 0))
        figures.output_sizes.observe(choice.tokens)

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
