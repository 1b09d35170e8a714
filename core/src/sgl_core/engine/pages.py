"""The page allocator: which pages of the KV pool are free, as one numpy stack; wrong frees are caught at once."""

from __future__ import annotations

import numpy as np

from sgl_core.api.worker import Ints


class PageError(RuntimeError):
    """A page was freed twice, or never belonged to the pool: a bookkeeping fault of the caller."""


class OutOfPages(RuntimeError):
    """Fewer pages are free than were asked for; the caller should have evicted or retracted first."""


class PageAllocator:
    """Hands out page ids ``0 .. num_pages-1``, last freed first, in the order in which they were freed: a sequence's pages lie
    in the order of its tokens, which is how they are read. ``page_size`` is in tokens."""

    __slots__ = ("_stack", "_top", "_used", "num_pages", "page_size")

    def __init__(self, num_pages: int, page_size: int) -> None:
        if num_pages < 1 or page_size < 1:
            raise ValueError(f"a pool needs at least one page of one token, not {num_pages} pages of {page_size}")
        self.num_pages = num_pages
        self.page_size = page_size
        self._stack: Ints = np.arange(num_pages - 1, -1, -1, dtype=np.int32)
        self._top = num_pages
        self._used = np.zeros(num_pages, dtype=np.bool_)

    @property
    def free_count(self) -> int:
        """How many pages are free."""
        return self._top

    @property
    def used_count(self) -> int:
        """How many pages are out: owned by requests or held by the prefix cache."""
        return self.num_pages - self._top

    def alloc(self, count: int) -> Ints:
        """Take ``count`` pages. Raises :class:`OutOfPages` and takes none where there are not so many."""
        if count > self._top:
            raise OutOfPages(f"{count} pages asked, {self._top} of {self.num_pages} free")
        self._top -= count
        pages = self._stack[self._top : self._top + count][::-1].copy()
        self._used[pages] = True
        return pages

    def free(self, pages: Ints) -> None:
        """Give pages back. Raises :class:`PageError` for a page that is free already, listed twice or not of this pool."""
        count = len(pages)
        if count == 0:
            return
        ordered = np.sort(pages)
        if ordered[0] < 0 or ordered[-1] >= self.num_pages:
            raise PageError(f"pages {pages.tolist()} are not all of this pool of {self.num_pages}")
        if (ordered[1:] == ordered[:-1]).any() or not self._used[ordered].all():
            raise PageError(f"pages freed twice, among {pages.tolist()}")
        self._used[pages] = False
        self._stack[self._top : self._top + count] = pages[::-1]
        self._top += count

    def used_pages(self) -> Ints:
        """The ids of all pages that are out, ascending (for checks)."""
        return np.flatnonzero(self._used).astype(np.int32)
