"""The scheduler: memory share, batch limits, order, chunking."""

from __future__ import annotations

from ..declare import Subject, field, from_registry


class Schedule(Subject):
    """Scheduling."""

    namespace = "schedule"
    title = "Scheduling"

    mem_fraction_static = field(float | None, None, "")
    max_running_requests = field(int | None, None, "")
    max_queued_requests = field(int | None, None, "")
    max_total_tokens = field(int | None, None, "", parse="size")
    chunked_prefill_size = field(int | None, None, "")
    prefill_decode_interval = field(int, 0, "")
    enable_dynamic_chunking = field(bool, False, "")
    max_prefill_tokens = field(int, 16384, "", parse="size")
    prefill_max_requests = field(int | None, None, "")
    schedule_policy = field(str, "fcfs", "", choices=from_registry("schedule_policies"))
    enable_priority_scheduling = field(bool, False, "")
    disable_priority_preemption = field(bool, False, "")
    default_priority_value = field(int | None, None, "")
    abort_on_priority_when_disabled = field(bool, False, "")
    schedule_low_priority_values_first = field(bool, False, "")
    priority_scheduling_preemption_threshold = field(int, 10, "")
    retraction_policy = field(str, "length", "", choices=("length", "priority"))
    schedule_conservativeness = field(float, 1.0, "")
    page_size = field(int | None, None, "", resolvable=True)
    c128_page_size = field(int, 16, "")
    swa_full_tokens_ratio = field(float, 0.8, "", resolvable=True)
    disable_hybrid_swa_memory = field(bool, False, "", resolvable=True)
    prefill_only_disable_kv_cache = field(bool, False, "")
    disable_chunked_prefix_cache = field(bool, False, "")
    disable_overlap_schedule = field(bool, False, "", resolvable=True)
    num_continuous_decode_steps = field(int, 1, "")
    scheduler_recv_interval = field(int, 1, "")
    enable_mixed_chunk = field(bool, False, "")
    max_mamba_cache_size = field(int | None, None, "")
    mamba_full_memory_ratio = field(float, 0.9, "", resolvable=True)
