"""The prefix cache that remembers nothing (``--disable-radix-cache``): every prompt is computed in full."""

from __future__ import annotations

import numpy as np

from sgl_core.api.cache import EvictionPolicy
from sgl_core.api.worker import Ints

from .pages import PageAllocator
from .prefix_cache import Inserted, Match, Namespace

_NO_PAGES: Ints = np.zeros(0, dtype=np.int32)


class NoCache:
    """Keeps no page; requests own theirs until they end."""

    cached = 0
    evictable = 0

    def __init__(self, allocator: PageAllocator, policy: EvictionPolicy) -> None:
        self._page_size = allocator.page_size

    def root(self, namespace: Namespace) -> None:
        return None

    def match(self, tokens: Ints, namespace: Namespace, limit: int) -> Match:
        return Match(None, 0, _NO_PAGES)

    def peek(self, tokens: Ints, namespace: Namespace) -> int:
        return 0

    def lock(self, node: None) -> None:
        pass

    def hit(self, node: None) -> None:
        pass

    def unlock(self, node: None) -> None:
        pass

    def insert(self, node: None, tokens: Ints, pages: Ints, priority: int = 0) -> Inserted:
        return Inserted(None, 0, _NO_PAGES)

    def evict(self, count: int) -> int:
        return 0

    def reset(self) -> None:
        pass
