"""EngineLimits: the part of the configuration the scheduler acts on, as one frozen value that tests make without a Config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

UNLIMITED = 1 << 30


class FlatConfig(Protocol):
    """Any configuration that is read by field name."""

    def get(self, name: str) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """Sizes are in tokens. Field by field what the server argument of the same name means; ``chunked_prefill_size`` and
    ``max_prefill_tokens`` of :data:`UNLIMITED` mean none."""

    chunked_prefill_size: int = 8192
    max_prefill_tokens: int = 16384
    prefill_max_requests: int = UNLIMITED
    max_running_requests: int = UNLIMITED
    max_queued_requests: int = UNLIMITED
    prefill_step_ms: float | None = None
    enable_mixed_chunk: bool = False
    prefill_decode_interval: int = 0
    disable_overlap_schedule: bool = False
    schedule_policy: str = "fcfs"
    schedule_conservativeness: float = 1.0
    enable_priority_scheduling: bool = False
    abort_on_priority_when_disabled: bool = False
    schedule_low_priority_values_first: bool = False
    disable_priority_preemption: bool = False
    priority_scheduling_preemption_threshold: int = 10
    retraction_policy: str = "length"
    disable_radix_cache: bool = False
    radix_eviction_policy: str = "lru"
    radix_eviction_policy_config: Mapping[str, Any] = field(default_factory=dict)
    stream_interval: int = 1
    disable_jump_forward: bool = False
    grammar_timeout: float = 60.0
    """Seconds a constraint may take to compile before its request is refused."""
    grammar_cache_size: int = 256
    """Compiled constraints kept."""
    share_wait_steps: int = 64
    """How many steps a request may wait for another that computes the same prefix before it computes the prefix itself."""

    def __post_init__(self) -> None:
        if self.retraction_policy not in ("length", "priority"):
            raise ValueError(f"retraction_policy must be length or priority, not {self.retraction_policy!r}")
        if self.prefill_step_ms is not None and not self.prefill_step_ms >= 0:
            raise ValueError(f"prefill_step_ms must be 0 (no bound) or more, not {self.prefill_step_ms}")
        for name in ("max_prefill_tokens", "max_running_requests", "stream_interval", "prefill_max_requests"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    @classmethod
    def from_config(cls, config: FlatConfig) -> EngineLimits:
        """Read every field from a resolved configuration. None takes the default; a chunk size of 0 or below means no chunks."""
        values: dict[str, Any] = {}
        for name in cls.__dataclass_fields__:
            if name in _OWN:
                continue
            value = config.get(name)
            if value is not None:
                values[name] = value
        if values.get("chunked_prefill_size", 1) < 1:
            values["chunked_prefill_size"] = UNLIMITED
        return cls(**values)


_OWN = frozenset({"grammar_timeout", "grammar_cache_size", "share_wait_steps"})
"""Fields that are no server argument."""
