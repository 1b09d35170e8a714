"""An event loop in a thread of its own, so that synchronous callers can use the asynchronous front."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """Starts at once; :meth:`close` ends it. Not for calls from its own thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine; its result comes in the future."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for it. An interrupt cancels it."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items of an asynchronous iterator as they come; leaving early ends it."""
        handed: queue.SimpleQueue[T | _End] = queue.SimpleQueue()

        async def pump() -> None:
            error: BaseException | None = None
            try:
                async for item in items:
                    handed.put(item)
            except BaseException as raised:
                error = raised
            finally:
                close = getattr(items, "aclose", None)
                if close is not None:
                    await close()
                handed.put(_End(error))

        pumping = self.submit(pump())
        try:
            while True:
                item = handed.get()
                if isinstance(item, _End):
                    if item.error is not None:
                        raise item.error
                    return
                yield item
        finally:
            pumping.cancel()

    def close(self) -> None:
        """End the loop and its thread. Safe to call twice."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=30)
        if not self._thread.is_alive():
            self._loop.close()


class _End:
    """The last thing handed over."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error
