"""InlineChannel: the worker loop in a thread of this process, same messages, no sockets. For offline use and tests."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import traceback
from collections import deque
from typing import TYPE_CHECKING

from .channel import ChannelClosed
from .messages import Fatal, FromWorker, Progress, Shutdown, ToWorker
from .start import make_loop

if TYPE_CHECKING:
    from sgl_core.plan import Plan

log = logging.getLogger(__name__)


class QueueInbox:
    """Messages through a thread-safe queue."""

    def __init__(self) -> None:
        self.queue: queue.SimpleQueue[ToWorker] = queue.SimpleQueue()

    def receive(self, timeout: float | None) -> list[ToWorker]:
        messages: list[ToWorker] = []
        try:
            if timeout != 0:
                messages.append(self.queue.get(timeout=timeout))
            while True:
                messages.append(self.queue.get_nowait())
        except queue.Empty:
            return messages


class InlineChannel:
    """See :class:`~sgl_core.engine.channel.Channel`. The thread starts at once; Ready comes as a message."""

    def __init__(self, plan: Plan, rank: int = 0) -> None:
        self._plan = plan
        self._rank = rank
        self._inbox = QueueInbox()
        self._received: deque[FromWorker] = deque()
        self._lock = threading.Lock()
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self._ended = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"sgl-worker-{rank}", daemon=True)
        self._thread.start()

    def send(self, message: ToWorker) -> None:
        if self._closed or self._ended:
            raise ChannelClosed("the worker has ended")
        self._inbox.queue.put(message)

    async def recv(self) -> FromWorker:
        while True:
            with self._lock:
                if self._received:
                    return self._received.popleft()
                if self._ended or self._closed:
                    raise ChannelClosed("the worker has ended")
                loop = asyncio.get_running_loop()
                woken: asyncio.Future[None] = loop.create_future()
                self._waiter = (loop, woken)
            await woken

    def alive(self) -> bool:
        return self._thread.is_alive() and not self._ended

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._inbox.queue.put(Shutdown())
            self._wake()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=30)

    def _put(self, message: FromWorker) -> None:
        with self._lock:
            self._received.append(message)
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            loop, woken = waiter
            try:
                loop.call_soon_threadsafe(_resolve, woken)
            except RuntimeError:  # that event loop is closed: nobody waits there any more
                log.debug("the event loop that waited for a message is closed")

    def _run(self) -> None:
        def progress(what: str, done: int, total: int) -> None:
            self._put(Progress(what=what, done=done, total=total))

        try:
            loop = make_loop(self._plan, self._rank, self._inbox, self._put, progress)
        except Exception as error:
            self._put(Fatal(message=f"{type(error).__name__}: {error}", traceback=traceback.format_exc()))
        else:
            try:
                loop.run()
            except Exception:
                log.exception("the inline worker ended")
        with self._lock:
            self._ended = True
        self._wake()


def _resolve(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


InlineWorker = InlineChannel
"""The name the interface list uses."""
