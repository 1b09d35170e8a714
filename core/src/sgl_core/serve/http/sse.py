"""Server-sent events and plain answers from a run; both end the run at once when the client leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sgl_core.serve.core.answer import Answer, collect
from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.core.events import Event, Failed
from sgl_core.serve.core.run import Run

from .application import BARE_SEND
from .errors import ClientGone, error_body, error_response, route_path

log = logging.getLogger("sgl.http")

DONE = b"data: [DONE]\n\n"


class StreamWriter(Protocol):
    """One API's form of a stream: batches of events to bytes of SSE."""

    def write(self, batch: list[Event]) -> bytes: ...

    def end(self) -> bytes:
        """After the last event: usage, the end mark."""
        ...

    def error(self, error: RequestError) -> bytes:
        """An error in mid-stream."""
        ...


class EventStream(Response):
    """The SSE answer of a run. A failure before anything was sent is a plain error answer with its own status."""

    media_type = "text/event-stream"

    def __init__(self, run: Run, writer: StreamWriter, grace: float) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._run = run
        self._writer = writer
        self._grace = grace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watcher = watch(receive, self._run)
        try:
            # A task of its own: each token wakes it alone, not every frame of what surrounds a request.
            await asyncio.create_task(self._answer(scope, receive, send, watcher))
        finally:
            watcher.cancel()
            self._run.abort()
            self._run.wake()  # lets a wait for the first batch end where this task was cancelled in it

    async def _answer(self, scope: Scope, receive: Receive, send: Send, watcher: asyncio.Task[None]) -> None:
        first = asyncio.ensure_future(self._run.next())
        await asyncio.wait((first,), timeout=self._grace)
        if first.done():
            batch = first.result()
            if batch and isinstance(batch[0], Failed):
                await error_response(failure(batch[0]), route_path(scope))(scope, receive, send)
                return
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        send = scope.get(BARE_SEND, send)
        body, more = self._form(await first)
        while not watcher.done():
            if body or not more:
                await send({"type": "http.response.body", "body": body, "more_body": more})
            if not more:
                return
            body, more = self._form(await self._run.next())

    def _form(self, batch: list[Event] | None) -> tuple[bytes, bool]:
        """A batch as it goes out, and whether more follows; None is the end of the run."""
        if batch is None:
            return self._writer.end(), False
        failed = batch[-1] if isinstance(batch[-1], Failed) else None
        try:
            body = self._writer.write(batch[:-1] if failed else batch)
        except Exception:
            log.exception("request %s could not be written", self._run.rid)
            return self._writer.error(RequestError("internal error while the answer was written", status=500)), False
        if failed is not None:
            return body + self._writer.error(failure(failed)), False
        if not self._run.open and not self._run.pending:
            return body + self._writer.end(), False
        return body, True


class LineStream(EventStream):
    """The same as lines of JSON."""

    media_type = "application/x-ndjson"


async def joined(request: Request, run: Run, take: Callable[[list[Event]], object]) -> None:
    """Give every batch of a run to ``take``, which builds the whole answer as it builds a stream.

    Ends the run and raises ClientGone when the client leaves first; raises RequestError where the run failed.
    """
    watcher = watch(request.receive, run)
    try:
        async with run:
            async for batch in run.batches():
                for entry in batch:
                    if isinstance(entry, Failed):
                        raise failure(entry)
                take(batch)
        if watcher.done():
            raise ClientGone
    finally:
        watcher.cancel()


async def whole_answer(request: Request, run: Run) -> list[Answer]:
    """All answers of a run; ends the run and raises ClientGone when the client leaves first."""
    watcher = watch(request.receive, run)
    try:
        async with run:
            answers = await collect(run)
        if watcher.done():
            raise ClientGone
        return answers
    finally:
        watcher.cancel()


def watch(receive: Receive, run: Run) -> asyncio.Task[None]:
    """A task that ends when the client has left, and then ends the run."""

    async def wait() -> None:
        while (await receive())["type"] != "http.disconnect":
            continue

    def left(task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            run.abort()
            run.wake()

    watcher = asyncio.create_task(wait())
    watcher.add_done_callback(left)
    return watcher


def failure(failed: Failed) -> RequestError:
    """A failed run as an error for the client."""
    return RequestError(failed.message, status=failed.status, code=failed.code)


def event(data: object, name: str = "") -> bytes:
    """One SSE event of JSON; ``name`` is its ``event:`` field where the API has one."""
    body = b"data: " + msgspec.json.encode(data) + b"\n\n"
    return b"event: " + name.encode() + b"\n" + body if name else body


def error_event(error: RequestError) -> bytes:
    """An error in OpenAI's shape as the last event, then the end mark."""
    return event(error_body(error)) + DONE
