"""The scheduler: memory share, batch limits, order, chunking."""

from __future__ import annotations

from ..declare import Subject, field, from_registry


class Schedule(Subject):
    """Scheduling."""

    namespace = "schedule"
    title = "Scheduling"

    mem_fraction_static = field(
        float | None,
        None,
        "Share of device memory for weights and KV cache, 0 to 1. Lower it on out-of-memory errors; raise it for more concurrent tokens.",
    )
    max_running_requests = field(int | None, None, "Most requests in the running batch. Unset follows from memory.")
    max_queued_requests = field(
        int | None, None, "Most requests waiting; further ones are turned away at once with 503. Unset: no limit."
    )
    max_total_tokens = field(
        int | None,
        None,
        "Tokens that the KV cache holds; takes 64k or 1.5M. Unset follows from memory; for tests and debugging.",
        parse="size",
    )
    chunked_prefill_size = field(
        int | None,
        None,
        "Most prompt tokens of a request computed in one step; -1 turns chunking off. Smaller keeps running answers smooth, larger fills the device.",
    )
    prefill_decode_interval = field(int, 0, "Decode steps that run after a prefill before the next prefill.")
    enable_dynamic_chunking = field(bool, False, "Adapt chunk sizes so that pipeline stages take equally long.")
    max_prefill_tokens = field(
        int,
        16384,
        "Most prompt tokens of all requests in one prefill step (at least one full prompt); takes 16k.",
        parse="size",
    )
    prefill_max_requests = field(int | None, None, "Most requests in one prefill step. Unset: no limit.")
    schedule_policy = field(
        str,
        "fcfs",
        "Which waiting request goes first: fcfs (first come), lpm (longest cached prefix), lof (longest output), and what packages add.",
        choices=from_registry("schedule_policies"),
    )
    enable_priority_scheduling = field(bool, False, "Honour the priority of requests: higher numbers first.")
    disable_priority_preemption = field(bool, False, "Never pause a running request for a more important one.")
    default_priority_value = field(int | None, None, "Priority of requests that state none.")
    abort_on_priority_when_disabled = field(
        bool, False, "Refuse requests that state a priority when priorities are off, instead of ignoring it."
    )
    schedule_low_priority_values_first = field(bool, False, "Lower numbers are more important.")
    priority_scheduling_preemption_threshold = field(
        int, 10, "By how much a waiting request's priority must exceed a running one's to take its place."
    )
    retraction_policy = field(
        str,
        "length",
        "Which running request gives way when the KV cache is full: length (short answers, long prompts first) or priority.",
        choices=("length", "priority"),
    )
    schedule_conservativeness = field(
        float,
        1.0,
        "How much room the scheduler leaves for answers to grow. Raise it above 1 when requests are retracted often; lower it to pack more.",
    )
    page_size = field(
        int | None,
        None,
        "Tokens per page of the KV cache. Unset follows the attention backend; larger pages transfer faster, smaller ones share prefixes better.",
        resolvable=True,
    )
    c128_page_size = field(int, 16, "Page size of the compressed KV cache of DeepSeek-V4 on Ascend, a multiple of 16.")
    swa_full_tokens_ratio = field(
        float,
        0.8,
        "Tokens kept for sliding-window layers as a share of those for full-attention layers, 0 to 1.",
        resolvable=True,
    )
    disable_hybrid_swa_memory = field(
        bool, False, "Give sliding-window layers as much KV memory as full-attention layers.", resolvable=True
    )
    prefill_only_disable_kv_cache = field(
        bool,
        False,
        "Allocate no KV cache at all. Only for embedding servers without chunking and without a prefix cache.",
    )
    disable_chunked_prefix_cache = field(
        bool, False, "Do not attend to a cached prefix in chunks (MLA models). Can be faster for short sequences."
    )
    disable_overlap_schedule = field(
        bool, False, "Do not prepare the next step while the device computes. Slower; for debugging.", resolvable=True
    )
    num_continuous_decode_steps = field(
        int, 1, "Decode steps between two looks at the queue. More gives throughput and a later first token."
    )
    scheduler_recv_interval = field(int, 1, "Steps between two looks for new messages.")
    enable_mixed_chunk = field(
        bool, False, "Put prefill chunks and decodes into one step, so that running answers never wait for prompts."
    )
    max_mamba_cache_size = field(int | None, None, "State slots of Mamba and linear-attention layers, in requests.")
    mamba_full_memory_ratio = field(
        float, 0.9, "Memory for layer states as a share of the memory for KV cache in hybrid models.", resolvable=True
    )
