"""Contracts of the scheduler's exchangeable parts: eviction policies and waiting-queue policies."""

from __future__ import annotations

from typing import Any, Protocol


class EvictableNode(Protocol):
    """What an eviction policy may look at: one leaf of the prefix cache."""

    last_access: float
    created: float
    hits: int
    priority: int


class EvictionPolicy(Protocol):
    """Orders evictable leaves: the smallest key goes first. The factory takes no argument."""

    def key(self, node: EvictableNode) -> Any: ...


class WaitingRequest(Protocol):
    """What a schedule policy may look at."""

    arrival: float
    priority: int
    prompt_len: int
    cached_len: int
    """Tokens of the prompt that the prefix cache holds now (0 unless the policy says it needs it)."""
    max_new_tokens: int
    """The most tokens it may still generate."""


class SchedulePolicy(Protocol):
    """Orders the waiting queue: the smallest key is admitted first."""

    needs_cached_len: bool

    def key(self, request: WaitingRequest) -> Any: ...
