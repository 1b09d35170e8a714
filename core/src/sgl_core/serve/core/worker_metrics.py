"""What the worker reports, as gauges and counters under the reference system's names."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge

from sgl_core.engine.messages import Stats

GB = 1 << 30

_GAUGES = {
    "num_running_reqs": "Requests running.",
    "num_queue_reqs": "Requests waiting.",
    "token_usage": "Used share of the KV pool.",
    "full_token_usage": "Used share of the KV pool of full attention.",
    "num_used_tokens": "Tokens of the KV pool in use.",
    "kv_used_tokens": "Tokens of the KV pool in use.",
    "max_total_num_tokens": "Tokens the KV pool holds.",
    "kv_available_tokens": "Free tokens of the KV pool.",
    "kv_evictable_tokens": "Tokens of the KV pool held by the prefix cache alone.",
    "cache_hit_rate": "Share of prompt tokens found in the prefix cache.",
    "gen_throughput": "Tokens generated per second.",
    "page_size": "Tokens of a page.",
    "num_pages": "Pages of the KV pool.",
    "context_len": "Longest sequence in tokens.",
    "weight_memory_usage_gb": "Memory of the weights in GB.",
    "kv_cache_memory_usage_gb": "Memory of the KV pool in GB.",
}
_MODES = ("prefill_compute", "prefill_cache", "decode")


class WorkerMetrics:
    """One worker's figures. Counters follow the worker's own, which begin at zero again when it is started anew."""

    def __init__(self, registry: CollectorRegistry, labels: Mapping[str, str]) -> None:
        worker = {**labels, "engine_type": "unified", "tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0"}
        names = list(worker)
        self._gauges = {
            name: Gauge(f"sglang:{name}", text, names, registry=registry).labels(**worker)
            for name, text in _GAUGES.items()
        }
        retracted = Counter(
            "sglang:num_retracted_requests_total", "Requests retracted to free pages.", names, registry=registry
        )
        tokens = Counter(
            "sglang:realtime_tokens_total",
            "Tokens as they are processed: prefill_compute, prefill_cache, decode.",
            [*names, "mode"],
            registry=registry,
        )
        jumped = Counter(
            "sgl:jump_forward_tokens_total",
            "Output tokens that a constraint forced and no step sampled.",
            names,
            registry=registry,
        )
        busy = Counter(
            "sglang:forward_execution_seconds_total",
            "Time spent in steps; category is always all.",
            [*names, "category"],
            registry=registry,
        )
        startup = Gauge(
            "sglang:startup_time_seconds",
            "How long the start took; scheduler_e2e is until the worker was ready.",
            [*labels, "phase"],
            registry=registry,
        )
        self._retracted = retracted.labels(**worker)
        self._tokens = {mode: tokens.labels(**worker, mode=mode) for mode in _MODES}
        self._jumped = jumped.labels(**worker)
        self._busy = busy.labels(**worker, category="all")
        self._startup = startup.labels(**labels, phase="scheduler_e2e")
        self._begun = time.monotonic()
        self._page_size = 1
        self._before = Stats()

    def starting(self) -> None:
        """A worker is started (again)."""
        self._begun = time.monotonic()

    def ready(self, capacity: Mapping[str, Any]) -> None:
        """The worker's sizes."""
        self._startup.set(time.monotonic() - self._begun)
        self._page_size = int(capacity.get("page_size") or 1)
        pages = int(capacity.get("num_pages") or 0)
        tokens = pages * self._page_size
        gauges = self._gauges
        gauges["page_size"].set(self._page_size)
        gauges["num_pages"].set(pages)
        gauges["max_total_num_tokens"].set(tokens)
        gauges["kv_available_tokens"].set(tokens)
        gauges["context_len"].set(int(capacity.get("context_length") or 0))
        gauges["weight_memory_usage_gb"].set(int(capacity.get("weight_bytes") or 0) / GB)
        gauges["kv_cache_memory_usage_gb"].set(int(capacity.get("kv_bytes_per_token") or 0) * tokens / GB)

    def stats(self, stats: Stats) -> None:
        """A report."""
        usage, page = stats.used_pages / max(stats.total_pages, 1), self._page_size
        values = {
            "num_running_reqs": stats.running,
            "num_queue_reqs": stats.waiting,
            "token_usage": usage,
            "full_token_usage": usage,
            "num_used_tokens": stats.used_pages * page,
            "kv_used_tokens": stats.used_pages * page,
            "max_total_num_tokens": stats.total_pages * page,
            "kv_available_tokens": stats.free_pages * page,
            "kv_evictable_tokens": stats.cached_pages * page,
            "cache_hit_rate": stats.cached_prompt_tokens / max(stats.prompt_tokens, 1),
        }
        for name, value in values.items():
            self._gauges[name].set(value)
        before, self._before = self._before, stats
        if stats.steps < before.steps:
            before = Stats()  # another worker
        spent = stats.step_seconds - before.step_seconds
        made = stats.generated_tokens - before.generated_tokens
        cached = stats.cached_prompt_tokens - before.cached_prompt_tokens
        self._gauges["gen_throughput"].set(made / spent if spent > 0 else 0.0)
        _add(self._tokens["decode"], made)
        _add(self._tokens["prefill_cache"], cached)
        _add(self._tokens["prefill_compute"], stats.prompt_tokens - before.prompt_tokens - cached)
        _add(self._retracted, stats.retractions - before.retractions)
        _add(self._jumped, stats.jumped_tokens - before.jumped_tokens)
        _add(self._busy, spent)

    def died(self) -> None:
        """Nothing runs any more."""
        for name in ("num_running_reqs", "num_queue_reqs", "gen_throughput", "token_usage", "full_token_usage"):
            self._gauges[name].set(0)


def _add(counter: Counter, amount: float) -> None:
    """Counters never fall, whatever a worker reports."""
    if amount > 0:
        counter.inc(amount)
