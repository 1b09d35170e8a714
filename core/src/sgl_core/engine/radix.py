"""The radix prefix cache: a tree over token pages, one root per namespace, with locks and eviction of unused leaves.

A node holds a run of whole pages. Locking a node protects its whole path. Leaves that nobody locks wait in a heap ordered by
the eviction policy; entries that went stale are dropped when they come up. A leaf loses its pages from the tail.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sgl_core.api.cache import EvictionPolicy
from sgl_core.api.worker import Ints

from .pages import PageAllocator
from .prefix_cache import Inserted, Match, Namespace

_EMPTY: Ints = np.zeros(0, dtype=np.int32)


class Node:
    """A run of pages. ``end`` is the length in tokens from the root to the end of this run."""

    __slots__ = (
        "children", "created", "end", "hits", "key", "last_access", "locks", "namespace",
        "pages", "parent", "priority", "stamp", "tokens",
    )  # fmt: skip

    def __init__(self, parent: Node | None, key: bytes, tokens: Ints, pages: Ints, now: float, priority: int) -> None:
        self.parent = parent
        self.key = key
        self.tokens = tokens
        self.pages = pages
        self.end: int = (parent.end if parent else 0) + len(tokens)
        self.children: dict[bytes, Node] = {}
        self.locks = 0
        self.created = now
        self.last_access = now
        self.hits = 0
        self.priority = priority
        self.namespace: Namespace | None = None
        self.stamp = 0
        """Number of the heap entry that speaks for this leaf; 0 when none does."""


def common_length(a: Ints, b: Ints) -> int:
    """How many leading tokens two runs share."""
    count = min(len(a), len(b))
    differs = a[:count] != b[:count]
    first = int(differs.argmax()) if count else 0
    return first if count and differs[first] else count


class RadixCache:
    """See :class:`~sgl_core.engine.prefix_cache.PrefixCache`. Holds pages of ``allocator`` and frees what it evicts to it."""

    def __init__(
        self, allocator: PageAllocator, policy: EvictionPolicy, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._allocator = allocator
        self._policy = policy
        self._clock = clock
        self._page = allocator.page_size
        self._roots: dict[Namespace, Node] = {}
        self._heap: list[tuple[Any, int, Node]] = []
        self._stamp = 0
        self.cached = 0
        self.evictable = 0

    def root(self, namespace: Namespace) -> Node:
        root = self._roots.get(namespace)
        if root is None:
            root = self._roots[namespace] = Node(None, b"", _EMPTY, _EMPTY, self._clock(), 0)
            root.namespace = namespace
        return root

    def match(self, tokens: Ints, namespace: Namespace, limit: int) -> Match:
        """Splits the node in which the match ends, so that the path can be locked exactly."""
        root = self._roots.get(namespace)
        if root is None:
            return Match(self.root(namespace), 0, _EMPTY)
        node, pages = self._walk(root, tokens[: limit - limit % self._page])
        return Match(node, node.end, pages)

    def peek(self, tokens: Ints, namespace: Namespace) -> int:
        node = self._roots.get(namespace)
        length = 0
        while node is not None:
            node = node.children.get(tokens[length : length + self._page].tobytes())
            if node is None:
                break
            shared = common_length(node.tokens, tokens[length:])
            length += shared - shared % self._page
            if shared < len(node.tokens):
                break
        return length

    def lock(self, node: Node) -> None:
        now = self._clock()
        walk: Node | None = node
        while walk is not None:
            if walk.locks == 0:
                self.evictable -= len(walk.pages)
                walk.stamp = 0
            walk.locks += 1
            walk.last_access = now
            walk = walk.parent

    def hit(self, node: Node) -> None:
        walk: Node | None = node
        while walk is not None:
            walk.hits += 1
            walk = walk.parent

    def unlock(self, node: Node) -> None:
        now = self._clock()
        walk: Node | None = node
        while walk is not None:
            if walk.locks < 1:
                raise RuntimeError("a cache node was unlocked more often than locked")
            walk.locks -= 1
            walk.last_access = now
            parent = walk.parent
            if walk.locks == 0:
                self.evictable += len(walk.pages)
                self._offer(walk)
                if parent is None:
                    self._drop_empty_root(walk)
            walk = parent

    def insert(self, node: Node, tokens: Ints, pages: Ints, priority: int = 0) -> Inserted:
        if len(tokens) != len(pages) * self._page:
            raise ValueError(f"{len(tokens)} tokens do not fill {len(pages)} pages of {self._page}")
        if len(tokens) == 0:
            return Inserted(node, 0, _EMPTY)
        start = node.end
        end, held = self._walk(node, tokens)
        known = end.end - start
        walk: Node | None = end
        while walk is not None and walk is not node:
            walk.priority = max(walk.priority, priority)
            self._offer(walk)
            walk = walk.parent
        if known:
            self._allocator.free(pages[: len(held)])
        if known < len(tokens):
            rest, fresh = tokens[known:].copy(), pages[len(held) :].copy()
            leaf = Node(end, rest[: self._page].tobytes(), rest, fresh, self._clock(), priority)
            end.children[leaf.key] = leaf
            end.stamp = 0
            self.cached += len(fresh)
            self.evictable += len(fresh)
            self._offer(leaf)
            held = np.concatenate((held, fresh)) if known else fresh
            end = leaf
        return Inserted(end, len(tokens), held)

    def evict(self, count: int) -> int:
        freed = 0
        while freed < count and self._heap:
            _, stamp, node = heapq.heappop(self._heap)
            if node.stamp != stamp:
                continue
            take = min(count - freed, len(node.pages))
            keep = len(node.pages) - take
            self._allocator.free(node.pages[keep:])
            freed += take
            self.cached -= take
            self.evictable -= take
            node.stamp = 0
            if keep:
                node.pages = node.pages[:keep].copy()
                node.tokens = node.tokens[: keep * self._page].copy()
                node.end -= take * self._page
                self._offer(node)
            else:
                self._remove(node)
        return freed

    def reset(self) -> None:
        if self.evictable != self.cached:
            raise RuntimeError(f"{self.cached - self.evictable} cached pages are in use")
        for node in self.nodes():
            self._allocator.free(node.pages)
            node.stamp = 0
        self._roots = {space: root for space, root in self._roots.items() if root.locks}
        for root in self._roots.values():
            root.children = {}
        self._heap = []
        self.cached = self.evictable = 0

    def nodes(self) -> Iterator[Node]:
        """Every node but the roots (for checks)."""
        todo = [child for root in self._roots.values() for child in root.children.values()]
        while todo:
            node = todo.pop()
            todo.extend(node.children.values())
            yield node

    def _walk(self, node: Node, tokens: Ints) -> tuple[Node, Ints]:
        """Follow ``tokens`` from ``node`` as far as whole pages agree; the end node (split if need be) and the pages passed."""
        passed: list[Ints] = []
        at = 0
        while at < len(tokens):
            child = node.children.get(tokens[at : at + self._page].tobytes())
            if child is None:
                break
            shared = common_length(child.tokens, tokens[at:])
            shared -= shared % self._page
            if shared < len(child.tokens):
                child = self._split(child, shared)
            passed.append(child.pages)
            at += shared
            node = child
        if len(passed) == 1:
            return node, passed[0]
        return node, np.concatenate(passed) if passed else _EMPTY

    def _split(self, node: Node, length: int) -> Node:
        """Cut ``node`` after ``length`` tokens. The lower part stays the same object, so that locks held on it keep their depth."""
        assert node.parent is not None
        pages = length // self._page
        upper = Node(node.parent, node.key, node.tokens[:length], node.pages[:pages], node.created, node.priority)
        upper.locks, upper.hits, upper.last_access = node.locks, node.hits, node.last_access
        node.parent.children[node.key] = upper
        node.tokens, node.pages = node.tokens[length:], node.pages[pages:]
        node.key = node.tokens[: self._page].tobytes()
        node.parent = upper
        upper.children[node.key] = node
        return upper

    def _offer(self, node: Node) -> None:
        """Queue a leaf for eviction under its current key, if nothing protects it."""
        if node.locks or node.children or node.parent is None:
            return
        self._stamp += 1
        node.stamp = self._stamp
        heapq.heappush(self._heap, (self._policy.key(node), self._stamp, node))
        if len(self._heap) > 2 * self.cached + 64:  # mostly stale entries
            self._heap = [entry for entry in self._heap if entry[2].stamp == entry[1]]
            heapq.heapify(self._heap)

    def _remove(self, node: Node) -> None:
        parent = node.parent
        assert parent is not None
        del parent.children[node.key]
        if parent.parent is not None:
            self._offer(parent)
        else:
            self._drop_empty_root(parent)

    def _drop_empty_root(self, root: Node) -> None:
        if root.locks == 0 and not root.children and root.namespace is not None:
            self._roots.pop(root.namespace, None)
