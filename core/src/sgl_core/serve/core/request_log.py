"""Request logs (``--log-requests``): who asked for what and how it ended, at four levels of detail."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from sgl_core.engine.messages import Stats

from .choice import Choice
from .events import Event, Failed, Finished
from .run import Run

log = logging.getLogger("sgl.requests")
_SHORT = 64


class RequestLog:
    """An observer of the front; our own probes are left out. Level 0: ids and counts; 1: sampling parameters too; 2: the first token ids; 3: all of them."""

    def __init__(self, level: int, as_json: bool = False) -> None:
        self._level = level
        self._json = as_json

    def ready(self, capacity: Mapping[str, Any]) -> None:
        self._write("ready", dict(capacity))

    def started(self, run: Run) -> None:
        seen: set[int] = set()
        for choice in run.choices:
            if choice.request.measured and id(choice.request) not in seen:
                seen.add(id(choice.request))
                self._write("received", self._received(choice, run.rid))

    def outputs(self, choice: Choice, new_tokens: int, now: float) -> None:
        return

    def finished(self, choice: Choice, event: Event | None, now: float) -> None:
        if not choice.request.measured:
            return
        how = "aborted"
        if isinstance(event, Finished):
            how = event.reason
        elif isinstance(event, Failed):
            how = f"failed: {event.message}"
        fields = {
            "rid": choice.request.rid or choice.rid,
            "finish": how,
            "prompt_tokens": len(choice.request.input_ids),
            "completion_tokens": choice.tokens,
            "cached_tokens": choice.cached_tokens,
            "seconds": round(now - choice.arrived, 4),
        }
        self._write("finished", fields)

    def stats(self, stats: Stats) -> None:
        return

    def _received(self, choice: Choice, rid: str) -> dict[str, Any]:
        request = choice.request
        fields: dict[str, Any] = {
            "rid": request.rid or rid,
            "prompt_tokens": len(request.input_ids),
            "n": request.n,
            "stream": request.stream,
        }
        if self._level >= 1:
            fields["sampling"] = msgspec.to_builtins(request.sampling)
        if self._level >= 2:
            fields["input_ids"] = request.input_ids if self._level >= 3 else request.input_ids[:_SHORT]
        return fields

    def _write(self, what: str, fields: dict[str, Any]) -> None:
        if self._json:
            log.info("%s", json.dumps({"event": what, **fields}))
        else:
            log.info("%s %s", what, " ".join(f"{name}={value}" for name, value in fields.items()))
