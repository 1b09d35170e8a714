"""Which pages a running request stands on: taking them, offering computed ones to the prefix cache, giving them back."""

from __future__ import annotations

import numpy as np

from sgl_core.api.worker import Ints

from .pages import OutOfPages, PageAllocator
from .prefix_cache import Match, PrefixCache
from .request import Request
from .slots import SlotTable


class Holdings:
    """Keeps three things in step: the allocator, the prefix cache and the page table.

    Of a running request's pages the first ``shared / page_size`` belong to the cache (locked by ``node``), the others to it alone.
    """

    def __init__(self, allocator: PageAllocator, cache: PrefixCache, slots: SlotTable) -> None:
        self.allocator = allocator
        self.cache = cache
        self.slots = slots
        self.page_size = allocator.page_size

    @property
    def available(self) -> int:
        """Pages that can be had without ending or retracting anybody."""
        return self.allocator.free_count + self.cache.evictable

    def take(self, count: int) -> Ints:
        """Allocate, evicting as needed. Raises :class:`OutOfPages` where ``count`` exceeds ``available``."""
        short = count - self.allocator.free_count
        if short > 0 and self.cache.evict(short) < short:
            raise OutOfPages(f"{count} pages asked, {self.allocator.free_count} free after eviction")
        return self.allocator.alloc(count)

    def start(self, request: Request, match: Match) -> None:
        """Stand the request, which has its slot, on a matched prefix whose node is locked for it."""
        request.node = match.node
        request.shared = request.committed = match.length
        self.slots.put_pages(request.slot, 0, match.pages)
        self.slots.lens[request.slot] = match.length

    def room(self, slot: int) -> int:
        """How many tokens could be appended with the pages to be had."""
        return self.available * self.page_size + (-int(self.slots.lens[slot])) % self.page_size

    def extend(self, slot: int, count: int) -> None:
        """Append ``count`` tokens to a slot, with pages for them."""
        have = self.slots.page_count(slot)
        length = int(self.slots.lens[slot]) + count
        need = -(-length // self.page_size) - have
        if need > 0:
            self.slots.put_pages(slot, have, self.take(need))
        self.slots.lens[slot] = length

    def extend_rows(self, rows: Ints) -> tuple[Ints, Ints]:
        """Append one token to each of ``rows`` (slots). Returns their context lengths and the KV slots to write."""
        slots, size = self.slots, self.page_size
        lens = slots.lens[rows]
        at, offset = np.divmod(lens, size) if size > 1 else (lens, 0)
        fresh = rows if size == 1 else rows[offset == 0]
        if len(fresh):
            column = at if size == 1 else at[offset == 0]
            slots.reserve_columns(int(column.max()) + 1)
            slots.pages[fresh, column] = self.take(len(fresh))
        slots.lens[rows] = lens + 1
        return lens, slots.pages[rows, at] * size + offset

    def commit(self, request: Request, length: int) -> None:
        """The first ``length`` tokens of ``request.tokens`` are computed: offer their full pages to the cache."""
        request.committed = length
        self._offer(request, request.tokens, length)

    def close(self, request: Request, tokens: Ints, computed: int) -> None:
        """Give everything back, offering the pages of the first ``computed`` of ``tokens`` to the cache. The caller releases the slot."""
        self._offer(request, tokens, computed)
        row = self.slots.pages[request.slot]
        self.allocator.free(row[request.shared // self.page_size : self.slots.page_count(request.slot)])
        self.cache.unlock(request.node)
        request.node = None
        request.shared = request.committed = 0

    def _offer(self, request: Request, tokens: Ints, length: int) -> None:
        start, end = request.shared // self.page_size, length // self.page_size
        if end <= start:
            return
        pages = self.slots.pages[request.slot, start:end]
        inserted = self.cache.insert(
            request.node, tokens[request.shared : end * self.page_size], pages, request.message.priority
        )
        if inserted.length == 0:
            return
        self.cache.lock(inserted.node)
        self.cache.unlock(request.node)
        request.node = inserted.node
        request.shared += inserted.length
        self.slots.pages[request.slot, start : start + len(inserted.pages)] = inserted.pages
