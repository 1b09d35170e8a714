"""Responses kept in memory: at most so many and so many bytes, the least recently used forgotten first."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sgl_core.serve.core.errors import RequestError

RUNNING = frozenset({"queued", "in_progress"})


@dataclass(slots=True, kw_only=True)
class Record:
    """One response as it stands. ``context`` are the items of the whole conversation before its output.

    ``events`` are the stream's events so far, kept for background responses only: others are streamed once.
    """

    response: dict[str, Any]
    items: list[dict[str, Any]]
    context: list[dict[str, Any]]
    events: list[dict[str, Any]] = field(default_factory=list)
    background: bool = False
    size: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self.response["status"] in RUNNING

    def notify(self) -> None:
        """Let those go on who follow the events."""
        self.changed.set()

    async def follow(self, after: int) -> AsyncIterator[dict[str, Any]]:
        """The events with a number above ``after``, as they come, until the response ended."""
        at = after + 1
        while True:
            self.changed.clear()
            while at < len(self.events):
                yield self.events[at]
                at += 1
            if not self.running:
                return
            await self.changed.wait()


class ResponseStore:
    """``max_count`` responses of together ``max_bytes``. What still runs is not forgotten."""

    def __init__(self, max_count: int = 1024, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, key: str) -> bool:
        return key in self._records

    @property
    def bytes(self) -> int:
        """Bytes of what is kept, as JSON."""
        return self._bytes

    def put(self, record: Record) -> None:
        """Keep a record, or take note of its new size."""
        key = record.response["id"]
        before = self._records.pop(key, None)
        if before is not None:
            self._bytes -= before.size
        record.size = len(msgspec.json.encode([record.response, record.items, record.events]))
        self._records[key] = record
        self._bytes += record.size
        self._shrink(key)

    def _shrink(self, newest: str) -> None:
        for key, record in list(self._records.items()):
            if len(self._records) <= self._max_count and self._bytes <= self._max_bytes:
                return
            if not record.running and (key != newest or record.size > self._max_bytes):
                self._forget(key)

    def _forget(self, key: str) -> None:
        self._bytes -= self._records.pop(key).size

    def get(self, key: str, param: str = "response_id") -> Record:
        """The record, which then counts as used. Raises RequestError (404) where there is none (any more)."""
        record = self._records.get(key)
        if record is None:
            raise RequestError(
                f"{param}: there is no response {key!r}; it was not stored, was deleted, or is too long ago "
                f"(the server keeps {self._max_count})",
                param=param,
                status=404,
                code="response_not_found",
            )
        self._records.move_to_end(key)
        return record

    def delete(self, key: str) -> Record:
        """Forget a record. Raises RequestError (404)."""
        record = self.get(key)
        self._forget(key)
        return record

    def close(self) -> None:
        """End what runs in the background."""
        for record in self._records.values():
            if record.task is not None:
                record.task.cancel()
