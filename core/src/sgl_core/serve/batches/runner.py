"""Runs batches one after the other, a few lines at once, and holds back while others wait. A restart takes up where it stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.files.store import FileStore, new_id
from sgl_core.serve.http.errors import error_body

from . import lines
from .execute import execute
from .lines import Line
from .serving import Serving
from .state import OPEN, BatchStates

log = logging.getLogger("sgl.batches")

MAX_WIDTH = 32
"""Lines of a batch at once, at most."""
HOLD_SECONDS = 0.2
"""How often the runner looks whether others still wait."""


class Stopped(Exception):
    """The server takes no more requests: the batch goes on after a restart."""


class BatchRunner:
    """Owns the batches. :meth:`start` resumes what is unfinished; it is called again by every use and then does nothing."""

    def __init__(self, states: BatchStates, files: FileStore, serving: Serving) -> None:
        self.states = states
        self.files = files
        self.serving = serving
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._cancelled = asyncio.Event()
        self._running = ""

    def start(self) -> None:
        """Begin to work, on the running event loop."""
        if self._task is not None:
            return
        for batch in self.states.list():
            if batch["status"] in OPEN:
                self._waiting.put_nowait(batch["id"])
        self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Stop; unfinished batches stay as they are on disk."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def create(self, endpoint: str, input_file_id: str, metadata: Mapping[str, str] | None) -> dict[str, Any]:
        """A new batch: ``failed`` with its errors where the file is not right, else queued. Raises RequestError (404)."""
        path = self.files.path(input_file_id)
        total, errors = await asyncio.to_thread(lines.check, path, endpoint)
        self.start()
        batch = self.states.new(endpoint, input_file_id, metadata)
        batch["request_counts"]["total"] = total
        if errors:
            batch["errors"] = {"object": "list", "data": errors}
            self.states.become(batch, "failed")
        else:
            self.states.save(batch)
            self._waiting.put_nowait(batch["id"])
        return batch

    def cancel(self, key: str) -> dict[str, Any]:
        """Ask a batch to end; results so far are kept. Raises RequestError where it has ended."""
        self.start()
        batch = self.states.get(key)
        if batch["status"] in ("cancelling", "cancelled"):
            return batch
        if batch["status"] not in ("validating", "in_progress"):
            raise RequestError(f"the batch has ended: its status is {batch['status']}", code="batch_ended")
        self.states.become(batch, "cancelling")
        if key == self._running:
            self._cancelled.set()
        return batch

    # -- work ---------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        try:
            await self.serving.wait_ready()
            while True:
                key = await self._waiting.get()
                batch = self.states.get(key)
                if batch["status"] not in OPEN:
                    continue
                self._running = key
                self._cancelled.clear()
                try:
                    await self._run(batch)
                except (OSError, ValueError, RequestError) as error:
                    log.exception("batch %s failed", key)
                    fault = {"code": "server_error", "message": str(error), "line": None, "param": None}
                    batch["errors"] = {"object": "list", "data": [fault]}
                    self.states.become(batch, "failed")
                finally:
                    self._running = ""
        except (Stopped, RequestError) as error:
            log.info("batches stop: %s", error)

    async def _run(self, batch: dict[str, Any]) -> None:
        if batch["status"] == "validating":
            self.states.become(batch, "in_progress")
        ended = {"cancelling": "cancelled"}.get(batch["status"], "completed")
        if batch["status"] in ("in_progress", "cancelling"):
            done = lines.finished(self.states.results(batch, "output"))
            failed = lines.finished(self.states.results(batch, "error"))
            batch["request_counts"] |= {"completed": len(done), "failed": len(failed)}
            if batch["status"] == "in_progress":
                ended = await self._serve(batch, done | failed)
        self._finish(batch, ended)

    async def _serve(self, batch: dict[str, Any], done: set[str]) -> str:
        """Serve what is not done; how the batch ended."""
        under_way: set[asyncio.Task[None]] = set()
        stop = asyncio.create_task(self._cancelled.wait())
        try:
            keys = await asyncio.to_thread(self._keys, batch)
            for key, line in self._by_key(batch, keys):
                if line.custom_id in done:
                    continue
                if time.time() > batch["expires_at"]:
                    self._expire(batch, line)
                    continue
                await self._room(key, under_way, stop)
                if self._cancelled.is_set():
                    return "cancelled"
                under_way.add(asyncio.create_task(self._line(batch, key, line)))
            while under_way and not self._cancelled.is_set():
                await self._step(under_way, stop)
            return "cancelled" if self._cancelled.is_set() else self._ending(batch)
        finally:
            stop.cancel()
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    @staticmethod
    def _ending(batch: Mapping[str, Any]) -> str:
        return "expired" if time.time() > batch["expires_at"] else "completed"

    def _keys(self, batch: Mapping[str, Any]) -> list[str]:
        """The keys of a batch's lines, in the order in which they come."""
        read = lines.read(self.files.path(batch["input_file_id"]))
        return list(dict.fromkeys(self.serving.key(line.body) for line in read))

    def _by_key(self, batch: Mapping[str, Any], keys: list[str]) -> Iterator[tuple[str, Line]]:
        """The lines, key by key; read once a key, since a file may be larger than what should lie in memory."""
        for key in keys:
            for line in lines.read(self.files.path(batch["input_file_id"])):
                if self.serving.key(line.body) == key:
                    yield key, line

    async def _room(self, key: str, under_way: set[asyncio.Task[None]], stop: asyncio.Task[bool]) -> None:
        """Until another line may start: few are under way, and nobody else waits in the engine's queue."""
        width = max(1, min(MAX_WIDTH, (self.serving.requests_at_once(key) or MAX_WIDTH) // 4))
        while len(under_way) >= width and not stop.done():
            await self._step(under_way, stop)
        while under_way and self.serving.others_wait(key) and not stop.done():
            await self._step(under_way, stop, HOLD_SECONDS)

    @staticmethod
    async def _step(under_way: set[asyncio.Task[None]], stop: asyncio.Task[bool], timeout: float | None = None) -> None:
        """Wait for a line to end. Raises what it raised."""
        done, _ = await asyncio.wait({*under_way, stop}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if task is not stop:
                under_way.discard(task)
                task.result()

    async def _line(self, batch: dict[str, Any], key: str, line: Line) -> None:
        """Serve one line and write its result. Raises Stopped where the server takes no requests."""
        while True:
            try:
                async with self.serving.lease(key) as (service, responses):
                    body = await execute(batch["endpoint"], service, responses, line.body)
            except RequestError as error:
                if error.status == 429:
                    await asyncio.sleep(HOLD_SECONDS)
                    continue
                if self.serving.ends(error):
                    raise Stopped(error.message) from None
                self._write(batch, line, error.status, error_body(error))
            except RecursionError:
                self._write(batch, line, 400, error_body(RequestError("the body is nested too deeply")))
            except Exception:
                log.exception("batch %s: %r failed", batch["id"], line.custom_id)
                fault = RequestError("internal error; the server's log has the details", status=500)
                self._write(batch, line, 500, error_body(fault))
            else:
                self._write(batch, line, 200, body)
            return

    def _write(self, batch: dict[str, Any], line: Line, status: int, body: dict[str, Any]) -> None:
        good = status == 200
        response = {"status_code": status, "request_id": uuid.uuid4().hex, "body": body}
        self._append(batch, line, response, None, "output" if good else "error")
        batch["request_counts"]["completed" if good else "failed"] += 1

    def _expire(self, batch: dict[str, Any], line: Line) -> None:
        error = {"code": "batch_expired", "message": "the request was not served within the completion window"}
        self._append(batch, line, None, error, "error")
        batch["request_counts"]["failed"] += 1

    def _append(
        self, batch: Mapping[str, Any], line: Line, response: dict[str, Any] | None, error: Any, what: str
    ) -> None:
        row = {"id": f"batch_req_{uuid.uuid4().hex}", "custom_id": line.custom_id, "response": response, "error": error}
        with self.states.results(batch, what).open("ab") as out:
            out.write(msgspec.json.encode(row) + b"\n")

    def _finish(self, batch: dict[str, Any], ended: str) -> None:
        """Results become files of the store, under ids that are promised first so that a crash in between loses nothing."""
        for what in ("output", "error"):
            if self.states.results(batch, what).is_file() and batch[f"{what}_file_id"] is None:
                batch[f"{what}_file_id"] = new_id("file-")
        if batch["status"] != "finalizing":
            batch["ends_as"] = ended
            self.states.become(batch, "finalizing")
        for what in ("output", "error"):
            path = self.states.results(batch, what)
            if path.is_file():
                self.files.adopt(batch[f"{what}_file_id"], path, f"{batch['id']}_{what}.jsonl", "batch_output")
        self.states.become(batch, batch.pop("ends_as", "completed"))
