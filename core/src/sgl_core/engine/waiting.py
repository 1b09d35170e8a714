"""The waiting queue: requests that hold nothing yet, in the order of the schedule policy."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from sgl_core.api.cache import SchedulePolicy

from .prefix_cache import PrefixCache
from .request import Request

RANKED_AT_MOST = 128
"""With more requests than this, a policy that asks for cached lengths is served by arrival: looking all up costs more than it gains."""

_Entry = tuple[int, bool, Any, int, Request]


class WaitingQueue:
    """A heap with lazy removal. ``priority_sign`` -1 puts greater priority values first, 1 smaller ones, 0 ignores them."""

    def __init__(self, policy: SchedulePolicy, priority_sign: int = 0) -> None:
        self._policy = policy
        self._sign = priority_sign
        self._members: dict[int, Request] = {}
        self._heap: list[_Entry] = []

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._members.values())

    def push(self, request: Request) -> None:
        self._members[request.seq] = request
        heapq.heappush(self._heap, self._entry(request))

    def remove(self, request: Request) -> None:
        """Take a request out wherever it stands."""
        self._members.pop(request.seq, None)

    def pop(self) -> Request | None:
        """The next request, which leaves the queue."""
        while self._heap:
            request = heapq.heappop(self._heap)[-1]
            if self._members.pop(request.seq, None) is not None:
                return request
        return None

    def peek(self) -> Request | None:
        """The next request, which stays."""
        request = self.pop()
        if request is not None:
            self.push(request)
        return request

    def least_important(self) -> Request | None:
        """The request that priorities would drop first: the last of the least important."""
        return max(self, key=lambda request: (self._sign * request.priority, request.seq), default=None)

    def rank(self, cache: PrefixCache) -> None:
        """Order the queue anew, where the policy looks at what is cached now."""
        if not self._policy.needs_cached_len:
            return
        by_arrival = len(self._members) > RANKED_AT_MOST
        heap = []
        for request in self._members.values():
            request.cached_len = 0 if by_arrival else cache.peek(request.all_tokens(), request.namespace)
            heap.append(self._entry(request))
        heapq.heapify(heap)
        self._heap = heap

    def _entry(self, request: Request) -> _Entry:
        fresh = not request.output_ids  # retracted requests go first: their work is half done
        return self._sign * request.priority, fresh, self._policy.key(request), request.seq, request
