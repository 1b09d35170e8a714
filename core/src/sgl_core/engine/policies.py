"""Waiting-queue policies (registry ``schedule_policies``): who is admitted next when there is room."""

from __future__ import annotations

import random
from typing import Any

from sgl_core.api.cache import WaitingRequest


class Fcfs:
    """First come, first served."""

    needs_cached_len = False

    def key(self, request: WaitingRequest) -> float:
        return request.arrival


class Lpm:
    """Longest cached prefix first, so that pages are used while they are there; ties by arrival."""

    needs_cached_len = True

    def key(self, request: WaitingRequest) -> tuple[int, float]:
        return -request.cached_len, request.arrival


class Lof:
    """Longest output first: the requests that may generate most start earliest."""

    needs_cached_len = False

    def key(self, request: WaitingRequest) -> tuple[int, float]:
        return -request.max_new_tokens, request.arrival


class ByPriority:
    """Greatest priority value first; ties by arrival."""

    needs_cached_len = False

    def key(self, request: WaitingRequest) -> tuple[int, float]:
        return -request.priority, request.arrival


class Random:
    """Any order. Each request draws its place once, when it joins the queue."""

    needs_cached_len = False

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)

    def key(self, request: WaitingRequest) -> Any:
        return self._random.random()
