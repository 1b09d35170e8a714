"""The figures of requests, by the values of the labels that clients may send; one set of them where they may send none."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram

from .metric_shapes import FIRST_TOKEN, GAP, QUEUE, TOKENS, WHOLE, Gaps

log = logging.getLogger("sgl.metrics")
MOST = 1000
"""Label sets of clients that have figures of their own: values are the clients', and series cost memory."""


class Buckets:
    """Buckets of the histograms, the reference system's where the operator names none."""

    def __init__(
        self,
        *,
        ttft: Sequence[float] = (),
        gaps: Sequence[float] = (),
        latency: Sequence[float] = (),
        prompt: Sequence[float] = (),
        generation: Sequence[float] = (),
    ) -> None:
        self.ttft = ttft or FIRST_TOKEN
        self.gaps = gaps or GAP
        self.latency = latency or WHOLE
        self.prompt = prompt or TOKENS
        self.generation = generation or TOKENS


class Families:
    """Every family, not bound to label values yet. ``labels`` are those of the model, ``custom`` the names clients may send."""

    def __init__(
        self, registry: CollectorRegistry, labels: Mapping[str, str], custom: Sequence[str], buckets: Buckets
    ) -> None:
        self.registry = registry
        self.labels = {**labels, **dict.fromkeys(custom, "")}
        self.custom = tuple(custom)
        self.gap_buckets = buckets.gaps
        self.prompt = self._counter("prompt_tokens_total", "Prompt tokens of finished requests.", "is_streaming")
        self.output = self._counter("generation_tokens_total", "Tokens generated.", "is_streaming")
        self.requests = self._counter(
            "num_requests_total", "Requests accepted, by how they are answered.", "is_streaming"
        )
        self.cached = self._counter("cached_tokens_total", "Prompt tokens found in a cache.", "cache_source")
        self.constrained = self._counter("num_so_requests_total", "Requests with an output constraint.")
        self.finished = self._counter(
            "num_finished_requests_total", "Requests that ended by themselves, by finish reason.", "finish_reason"
        )
        self.aborted = self._counter("num_aborted_requests_total", "Requests whose client left or that were aborted.")
        self.failed = self._counter("num_failed_requests_total", "Accepted requests that ended with an error.")
        self.ttft = self._histogram("time_to_first_token_seconds", "Time to first token.", buckets.ttft, "is_streaming")
        self.e2e = self._histogram(
            "e2e_request_latency_seconds", "Time of finished requests.", buckets.latency, "is_streaming"
        )
        self.queue = self._histogram("queue_time_seconds", "Time in the waiting queue.", QUEUE)
        self.prompt_sizes = self._histogram("prompt_tokens_histogram", "Prompt length in tokens.", buckets.prompt)
        self.uncached = self._histogram(
            "uncached_prompt_tokens_histogram", "Prompt tokens that had to be computed.", buckets.prompt
        )
        self.output_sizes = self._histogram(
            "generation_tokens_histogram", "Answer length in tokens.", buckets.generation
        )

    def _counter(self, name: str, text: str, *more: str) -> Counter:
        return Counter(f"sglang:{name}", text, [*self.labels, *more], registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Iterable[float], *more: str) -> Histogram:
        names = [*self.labels, *more]
        return Histogram(f"sglang:{name}", text, names, buckets=sorted(buckets), registry=self.registry)


class Figures:
    """The families bound to one set of label values, some of them by whether the answer is a stream."""

    def __init__(self, families: Families, custom: Mapping[str, str]) -> None:
        labels = {**families.labels, **custom}
        self._labels, self._families = labels, families

        def streams(family: Counter) -> dict[bool, Counter]:
            return {flag: family.labels(**labels, is_streaming=str(flag).lower()) for flag in (False, True)}

        def timed(family: Histogram) -> dict[bool, Histogram]:
            return {flag: family.labels(**labels, is_streaming=str(flag).lower()) for flag in (False, True)}

        self.prompt = streams(families.prompt)
        self.output = streams(families.output)
        self.requests = streams(families.requests)
        self.ttft = timed(families.ttft)
        self.e2e = timed(families.e2e)
        self.cached = families.cached.labels(**labels, cache_source="device")
        self.aborted = families.aborted.labels(**labels)
        self.failed = families.failed.labels(**labels)
        self.queue = families.queue.labels(**labels)
        self.prompt_sizes = families.prompt_sizes.labels(**labels)
        self.uncached = families.uncached.labels(**labels)
        self.output_sizes = families.output_sizes.labels(**labels)
        self.gaps = Gaps("sglang:inter_token_latency_seconds", "Time between tokens.", labels, families.gap_buckets)
        families.registry.register(self.gaps)

    def constrained(self) -> Counter:
        return self._families.constrained.labels(**self._labels)

    def finished(self, reason: str) -> Counter:
        return self._families.finished.labels(**self._labels, finish_reason=reason)


class FigureSets:
    """The figures of each set of values that clients sent, made when it first comes. Beyond :data:`MOST` of them new sets
    count as if nothing had been sent."""

    def __init__(self, families: Families) -> None:
        self._families = families
        self.plain = Figures(families, {})
        self._found: dict[tuple[str, ...], Figures] = {}

    def of(self, sent: Mapping[str, str] | None) -> Figures:
        """``sent`` are a request's labels, by allowed names."""
        if not sent:
            return self.plain
        key = tuple(sent.get(name, "") for name in self._families.custom)
        figures = self._found.get(key)
        if figures is None:
            if len(self._found) >= MOST:
                return self.plain
            figures = self._found[key] = Figures(self._families, dict(zip(self._families.custom, key, strict=True)))
            if len(self._found) == MOST:
                log.warning("clients sent %d sets of metric labels; further ones have no figures of their own", MOST)
        return figures
