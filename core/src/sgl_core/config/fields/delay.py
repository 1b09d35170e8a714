"""Holding prefills back so that they run together."""

from __future__ import annotations

from ..declare import Subject, field


class PrefillDelay(Subject):
    """Prefill delay."""

    namespace = "schedule"
    title = "Prefill delay"

    enable_prefill_delayer = field(
        bool, False, "Under data-parallel attention, hold prefills back until several ranks have one."
    )
    prefill_delayer_max_delay_passes = field(int, 30, "Most steps for which a prefill is held back.")
    prefill_delayer_token_usage_low_watermark = field(
        float | None, None, "KV usage below which prefills are not held back, 0 to 1."
    )
    prefill_delayer_forward_passes_buckets = field(list[float] | None, None, "Histogram buckets of the delay in steps.")
    prefill_delayer_wait_seconds_buckets = field(list[float] | None, None, "Histogram buckets of the delay in seconds.")
    prefill_delayer_queue_min_ratio = field(
        float | None, None, "Hold prefills until the queue is this share of the running batch. Unset: no such rule."
    )
    prefill_delayer_max_delay_ms = field(
        float | None, None, "Longest such delay in milliseconds, so that the first token is bounded."
    )
    min_free_slots_delay = field(
        int | None, None, "Admit new requests only when this many have finished, together in one step."
    )
