"""Holding prefills back so that they run together."""

from __future__ import annotations

from ..declare import Subject, field


class PrefillDelay(Subject):
    """Prefill delay."""

    namespace = "schedule"
    title = "Prefill delay"

    enable_prefill_delayer = field(bool, False, "")
    prefill_delayer_max_delay_passes = field(int, 30, "")
    prefill_delayer_token_usage_low_watermark = field(float | None, None, "")
    prefill_delayer_forward_passes_buckets = field(list[float] | None, None, "")
    prefill_delayer_wait_seconds_buckets = field(list[float] | None, None, "")
    prefill_delayer_queue_min_ratio = field(float | None, None, "")
    prefill_delayer_max_delay_ms = field(float | None, None, "")
    min_free_slots_delay = field(int | None, None, "")
