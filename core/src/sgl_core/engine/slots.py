"""The batch state by request slot, as numpy arrays, so that a decode step costs a few vector operations and no loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from sgl_core.api.worker import Ints

from .request import Request

NO_TOKEN = -2
"""Pads the stop ids: no token has this id."""


class SlotTable:
    """Columns over slots ``0 .. max_requests-1``. A slot freed while a step that uses it is under way rests until that step ends."""

    def __init__(self, max_requests: int, page_size: int) -> None:
        self.max_requests = max_requests
        self.page_size = page_size
        self.lens = np.zeros(max_requests, np.int32)
        """Tokens in the KV cache, counting those of steps under way."""
        self.out_planned = np.zeros(max_requests, np.int32)
        """Output tokens, counting the one under way."""
        self.out_known = np.zeros(max_requests, np.int32)
        self.out_limit = np.zeros(max_requests, np.int32)
        self.out_floor = np.zeros(max_requests, np.int32)
        """``min_new_tokens``."""
        self.last_token = np.zeros(max_requests, np.int32)
        self.pending_step = np.full(max_requests, -1, np.int64)
        """The step under way that samples this slot's next token; -1 when none does."""
        self.decoding = np.zeros(max_requests, np.bool_)
        self.live = np.zeros(max_requests, np.bool_)
        self.custom = np.zeros(max_requests, np.bool_)
        """Slots whose tokens need attention one by one: logprobs or a constraint."""
        self.constrained = np.zeros(max_requests, np.bool_)
        self.interval = np.ones(max_requests, np.int32)
        self.unsent = np.zeros(max_requests, np.int32)
        self.stop_ids = np.full((max_requests, 1), NO_TOKEN, np.int32)
        self.pages = np.zeros((max_requests, 16), np.int32)
        self.requests: list[Request | None] = [None] * max_requests
        self.freed: list[int] = []
        """Slots to report to the worker with the next step."""
        self._free = list(range(max_requests - 1, -1, -1))
        self._resting: deque[tuple[int, int]] = deque()

    @property
    def free_count(self) -> int:
        return len(self._free)

    def take(self, request: Request) -> int:
        """Give the request a slot with its columns reset."""
        slot = self._free.pop()
        self.requests[slot] = request
        self.live[slot] = True
        self.lens[slot] = 0
        self.decoding[slot] = self.custom[slot] = self.constrained[slot] = False
        self.pending_step[slot] = -1
        self.unsent[slot] = 0
        self.out_known[slot] = self.out_planned[slot] = len(request.output_ids)
        self.out_limit[slot] = request.max_new_tokens
        request.slot = slot
        return slot

    def release(self, slot: int, last_step: int, done_step: int) -> None:
        """Free a slot once step ``last_step`` is done; ``done_step`` is the latest that is."""
        self.pages[slot, : self.page_count(slot)] = 0
        self.requests[slot] = None
        self.live[slot] = self.decoding[slot] = False
        self.freed.append(slot)
        if last_step <= done_step:
            self._free.append(slot)
        else:
            self._resting.append((last_step, slot))

    def step_done(self, step_id: int) -> None:
        """Wake the slots that waited for this step."""
        while self._resting and self._resting[0][0] <= step_id:
            self._free.append(self._resting.popleft()[1])

    def page_count(self, slot: int) -> int:
        """Pages that cover the slot's tokens."""
        return -(-int(self.lens[slot]) // self.page_size)

    def set_stop_ids(self, slot: int, ids: Sequence[int]) -> None:
        if len(ids) > self.stop_ids.shape[1]:
            wider = np.full((self.max_requests, len(ids)), NO_TOKEN, np.int32)
            wider[:, : self.stop_ids.shape[1]] = self.stop_ids
            self.stop_ids = wider
        self.stop_ids[slot] = NO_TOKEN
        self.stop_ids[slot, : len(ids)] = ids

    def put_pages(self, slot: int, start: int, pages: Ints) -> None:
        """Write page ids from page index ``start`` on."""
        self.reserve_columns(start + len(pages))
        self.pages[slot, start : start + len(pages)] = pages

    def reserve_columns(self, count: int) -> None:
        """Make the page table at least ``count`` pages wide."""
        if count > self.pages.shape[1]:
            wider = np.zeros((self.max_requests, max(count, 2 * self.pages.shape[1])), np.int32)
            wider[:, : self.pages.shape[1]] = self.pages
            self.pages = wider
