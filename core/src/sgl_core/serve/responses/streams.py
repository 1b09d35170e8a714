"""The ways a response goes out: as a stream of its own run, in the background, or as a stream that follows the background's."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.core.events import Event, Failed
from sgl_core.serve.core.run import Run
from sgl_core.serve.http.sse import EventStream, event, failure

from .building import Builder
from .store import Record, ResponseStore
from .translate import Job

log = logging.getLogger("sgl.http")


def sse(events: list[dict[str, Any]]) -> bytes:
    """Events as they go over the wire."""
    return b"".join([event(entry, entry["type"]) for entry in events])


class ResponseStream:
    """Writes the SSE form; see sgl_core.serve.http.sse.StreamWriter. There is no end mark: the last event is one."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._begun = False

    def write(self, batch: list[Event]) -> bytes:
        return self._begin() + sse(self._builder.take(batch))

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        return sse(self._builder.begin())

    def end(self) -> bytes:
        return b""

    def error(self, error: RequestError) -> bytes:
        return self._begin() + sse(self._builder.fail(error))


class RunStream(EventStream):
    """The stream of a run; the record is settled however the stream ends."""

    def __init__(self, run: Run, job: Job, store: ResponseStore, grace: float) -> None:
        self._builder = Builder(job.chat, job.record.response)
        super().__init__(run, ResponseStream(self._builder), grace)
        self._job = job
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if (
                self._run.failed and self._job.record.running
            ):  # before anything was sent: the client has the error's status
                self._builder.fail(RequestError("the request could not be served", status=500))
            self._builder.cancel()
            settle(self._job.record, self._store)


class FollowStream(Response):
    """The events of a background response, from one number on. Leaving does not end the response."""

    media_type = "text/event-stream"

    def __init__(self, record: Record, after: int) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._record = record
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()
        if sending.done() and not sending.cancelled():
            sending.result()

    async def _send(self, send: Send) -> None:
        async for entry in self._record.follow(self._after):
            await send({"type": "http.response.body", "body": sse([entry]), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


async def in_background(run: Run, job: Job, store: ResponseStore) -> None:
    """Take a run to its end; its events are kept with the record for those who follow."""
    record = job.record
    builder = Builder(job.chat, record.response)
    record.events += builder.begin()
    try:
        async with run:
            async for batch in run.batches():
                failed = next((entry for entry in batch if isinstance(entry, Failed)), None)
                record.events += builder.fail(failure(failed)) if failed is not None else builder.take(batch)
                record.notify()
    except Exception:
        log.exception("response %s failed", record.response["id"])
        record.events += builder.fail(RequestError("internal error; the server's log has the details", status=500))
    finally:
        record.events += builder.cancel()
        settle(record, store)


def settle(record: Record, store: ResponseStore) -> None:
    """Take note that a record changed for good, unless it was deleted meanwhile or never stored."""
    record.task = None
    if record.response["id"] in store:
        store.put(record)
    record.notify()
