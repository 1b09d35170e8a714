"""Run: the choices of one API call while they are generated, and the events that wait to be taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from .choice import Choice
from .events import Event, Failed


class Run:
    """An async context manager; leaving it early aborts what still runs. Take events with :meth:`next` or :meth:`batches`.

    ``rids`` are the clients' ids, or one of ours. One task takes events; the front's reader puts them.
    """

    __slots__ = ("_abort", "_pending", "_taker", "choices", "failed", "open", "rids")

    def __init__(self, rids: Sequence[str], choices: Sequence[Choice], abort: Callable[[Run], None]) -> None:
        self.rids = rids
        self.choices = choices
        self.open = len(choices)
        self.failed = False
        self._abort = abort
        self._pending: list[Event] = []
        self._taker: asyncio.Future[None] | None = None

    @property
    def rid(self) -> str:
        """An id for logs."""
        return self.rids[0]

    @property
    def pending(self) -> list[Event]:
        """Where the front appends events; it calls :meth:`wake` after."""
        return self._pending

    def wake(self) -> None:
        """Let the taker run."""
        taker = self._taker
        if taker is not None and not taker.done():
            taker.set_result(None)

    def fail(self, failed: Failed) -> None:
        """End the run with a failure; choices that still run are the caller's to abort."""
        if not self.failed:
            self.failed = True
            self.open = 0
            self._pending.append(failed)
            self.wake()

    async def next(self) -> list[Event] | None:
        """All events that came since the last batch, at least one; None once every choice finished or the run failed."""
        while not self._pending:
            if self.open == 0:
                return None
            self._taker = asyncio.get_running_loop().create_future()
            await self._taker
        batch, self._pending = self._pending, []
        return batch

    async def batches(self) -> AsyncIterator[list[Event]]:
        """The batches of :meth:`next` to the end."""
        while (batch := await self.next()) is not None:
            yield batch

    def abort(self) -> None:
        """Tell the worker to end what still runs; no further events come."""
        if self.open:
            self._abort(self)

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.abort()
