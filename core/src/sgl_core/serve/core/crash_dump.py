"""Crash dumps (``--crash-dump-folder``): when the worker dies, what it served in its last minutes is written to a file to replay."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from .choice import Choice
from .events import Event, Finished
from .observer import Observer
from .request_log import ending
from .run import Run

log = logging.getLogger("sgl.crash_dump")

SECONDS = 300.0
"""How long a finished request is kept."""
MOST = 2000
"""How many finished requests are kept, whatever their age."""


class CrashDump(Observer):
    """Keeps finished requests of the last five minutes and those that run; writes them once when the worker is gone.

    The file is lines of JSON: the first says why and with which configuration, then a line for each request with its token
    ids and sampling parameters, those that still ran first. It holds what clients wrote, so only its owner may read it.
    """

    def __init__(self, folder: str, info: Mapping[str, Any], model: str) -> None:
        self._folder = Path(folder)
        self._info = dict(info)
        self._model = model
        self._running: dict[str, Choice] = {}
        self._ended: deque[tuple[float, dict[str, Any]]] = deque(maxlen=MOST)

    def started(self, run: Run) -> None:
        for choice in run.choices:
            if choice.kept is None:
                choice.kept = []
            self._running[choice.rid] = choice

    def finished(self, choice: Choice, event: Event | None, now: float) -> None:
        if self._running.pop(choice.rid, None) is None:
            return
        how = event.reason if isinstance(event, Finished) else ending(event)
        self._ended.append((now, {**_record(choice, now), "finish": how}))
        while self._ended and now - self._ended[0][0] > SECONDS:
            self._ended.popleft()

    def died(self, why: str) -> None:
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
        path = self._folder / f"crash_dump_{stamp}_{os.getpid()}.jsonl"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                for line in self._lines(why):
                    file.write(json.dumps(line, default=str) + "\n")
        except OSError as error:
            log.error("the crash dump could not be written to %s: %s", path, error)
            return
        log.error("%d running and %d finished requests are in %s", len(self._running), len(self._ended), path)
        self._running.clear()
        self._ended.clear()

    def _lines(self, why: str) -> Iterator[dict[str, Any]]:
        now = time.monotonic()
        yield {"why": why, "time": time.time(), "model": self._model, "server": self._info}
        for choice in self._running.values():
            yield {**_record(choice, now), "finish": None}
        for at, record in self._ended:
            yield {**record, "ended_seconds_ago": round(now - at, 3)}


def _record(choice: Choice, now: float) -> dict[str, Any]:
    request = choice.request
    return {
        "rid": request.rid or choice.rid,
        "seconds": round(now - choice.arrived, 4),
        "stream": request.stream,
        "input_ids": request.input_ids,
        "sampling": msgspec.to_builtins(request.sampling),
        "grammar": None if request.grammar is None else msgspec.to_builtins(request.grammar),
        "output_ids": choice.kept,
        "cached_tokens": choice.cached_tokens,
    }
