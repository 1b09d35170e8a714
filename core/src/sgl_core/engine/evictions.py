"""Eviction policies of the prefix cache (registry ``eviction_policies``): which unused leaf goes first."""

from __future__ import annotations

from sgl_core.api.cache import EvictableNode


class Lru:
    """Least recently used first."""

    def key(self, node: EvictableNode) -> float:
        return node.last_access


class Lfu:
    """Least often used first; among equals the least recently used."""

    def key(self, node: EvictableNode) -> tuple[int, float]:
        return node.hits, node.last_access


class Slru:
    """Segmented LRU: leaves used fewer than ``protected_threshold`` times go before the others, LRU within each segment."""

    def __init__(self, protected_threshold: int = 2) -> None:
        if protected_threshold < 1:
            raise ValueError(f"slru: protected_threshold must be at least 1, not {protected_threshold}")
        self._threshold = protected_threshold

    def key(self, node: EvictableNode) -> tuple[bool, float]:
        return node.hits >= self._threshold, node.last_access


class Priority:
    """Pages of the least important requests first (small priority value), LRU within one priority."""

    def key(self, node: EvictableNode) -> tuple[int, float]:
        return node.priority, node.last_access


class Fifo:
    """Oldest first, however often it was used."""

    def key(self, node: EvictableNode) -> float:
        return node.created
