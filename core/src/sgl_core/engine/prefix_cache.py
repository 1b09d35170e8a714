"""The contract of prefix caches (registry ``prefix_caches``): what the scheduler asks of whatever remembers computed pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from sgl_core.api.worker import Ints

Namespace = tuple[str, str]
"""(adapter, salt): requests of different namespaces never share pages."""


@dataclass(frozen=True, slots=True)
class Match:
    """The longest cached prefix: its end node, its length in tokens (whole pages) and its page ids."""

    node: Any
    length: int
    pages: Ints


@dataclass(frozen=True, slots=True)
class Inserted:
    """What became of offered pages: the end node of the path, how many tokens the cache holds of them, and the page ids
    that now stand for those tokens. Pages that the cache already had under other ids were freed by it."""

    node: Any
    length: int
    pages: Ints


class PrefixCache(Protocol):
    """Pages are either free (allocator), owned by a request, or held here. Nodes are opaque to the caller."""

    @property
    def cached(self) -> int:
        """Pages held."""
        ...

    @property
    def evictable(self) -> int:
        """Pages held that no lock protects."""
        ...

    def root(self, namespace: Namespace) -> Any:
        """The node of the empty prefix."""
        ...

    def match(self, tokens: Ints, namespace: Namespace, limit: int) -> Match:
        """The longest cached prefix of ``tokens``, at most ``limit`` tokens, in whole pages."""
        ...

    def peek(self, tokens: Ints, namespace: Namespace) -> int:
        """The length ``match`` would find, without any effect."""
        ...

    def lock(self, node: Any) -> None:
        """Protect the path to ``node`` from eviction."""
        ...

    def hit(self, node: Any) -> None:
        """Count a use of the path to ``node`` for the eviction policy."""
        ...

    def unlock(self, node: Any) -> None:
        """Undo one :meth:`lock`."""
        ...

    def insert(self, node: Any, tokens: Ints, pages: Ints, priority: int = 0) -> Inserted:
        """Take over ``pages`` that hold ``tokens`` (whole pages) following ``node``, which the caller has locked."""
        ...

    def evict(self, count: int) -> int:
        """Free up to ``count`` unprotected pages; returns how many."""
        ...

    def reset(self) -> None:
        """Free everything. Raises RuntimeError while anything is locked."""
        ...
