"""Request logs (``--log-requests``): who asked for what and how it ended, at four levels of detail."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from .choice import Choice
from .events import Event, Failed, Finished
from .observer import Observer
from .run import Run

log = logging.getLogger("sgl.requests")
_SHORT = 64
"""Token ids shown at level 2."""
_SHORT_TEXT = 2048
"""Characters shown at level 2."""

Decode = Callable[[Sequence[int]], str]


class RequestLog(Observer):
    """An observer of the front; our own probes are left out.

    Level 0: ids and counts; 1: sampling parameters too; 2: the beginning of token ids and texts; 3: all of them. ``sinks`` are
    the loggers written to; ``decode`` makes texts of ids (None: no texts).
    """

    def __init__(
        self,
        level: int = 2,
        as_json: bool = False,
        *,
        sinks: Sequence[logging.Logger] = (log,),
        decode: Decode | None = None,
    ) -> None:
        self.level = level
        self.as_json = as_json
        self._sinks = list(sinks)
        self._decode = decode

    def ready(self, capacity: Mapping[str, Any]) -> None:
        self._write("ready", dict(capacity))

    def started(self, run: Run) -> None:
        seen: set[int] = set()
        for choice in run.choices:
            if not choice.request.measured:
                continue
            if self.level >= 2:
                choice.kept = []
            if id(choice.request) not in seen:
                seen.add(id(choice.request))
                self._write("received", self._received(choice, run.rid))

    def finished(self, choice: Choice, event: Event | None, now: float) -> None:
        if not choice.request.measured:
            return
        fields = {
            "rid": choice.request.rid or choice.rid,
            "finish": ending(event),
            "prompt_tokens": len(choice.request.input_ids),
            "completion_tokens": choice.tokens,
            "cached_tokens": choice.cached_tokens,
            "seconds": round(now - choice.arrived, 4),
        }
        if choice.first_at:
            fields["first_token_seconds"] = round(choice.first_at - choice.arrived, 4)
        if choice.kept is not None and self.level >= 2:
            fields |= self._content("output_ids", choice.kept)
        self._write("finished", fields)

    def died(self, why: str) -> None:
        self._write("died", {"why": why})

    def _received(self, choice: Choice, rid: str) -> dict[str, Any]:
        request = choice.request
        fields: dict[str, Any] = {
            "rid": request.rid or rid,
            "prompt_tokens": len(request.input_ids),
            "n": request.n,
            "stream": request.stream,
        }
        if self.level >= 1:
            fields["sampling"] = msgspec.to_builtins(request.sampling)
        if self.level >= 2:
            fields |= self._content("input_ids", request.input_ids)
        return fields

    def _content(self, name: str, ids: Sequence[int]) -> dict[str, Any]:
        """Ids and their text, whole or their beginning."""
        whole = self.level >= 3
        fields: dict[str, Any] = {name: list(ids if whole else ids[:_SHORT])}
        if self._decode is not None:
            text = self._decode(ids if whole else ids[:_SHORT_TEXT])  # a token has a character at least, mostly
            fields["text"] = text if whole else text[:_SHORT_TEXT]
        return fields

    def _write(self, what: str, fields: dict[str, Any]) -> None:
        if self.as_json:
            line = json.dumps({"event": what, **fields}, ensure_ascii=False)
        else:
            line = f"{what} " + " ".join(f"{name}={_plain(value)}" for name, value in fields.items())
        for sink in self._sinks:
            sink.info("%s", line)


def ending(event: Event | None) -> str:
    """How a choice ended, in a word or with the failure's message."""
    if isinstance(event, Finished):
        return event.reason
    return f"failed: {event.message}" if isinstance(event, Failed) else "aborted"


def _plain(value: Any) -> str:
    """One line, whatever a client wrote."""
    return repr(value) if isinstance(value, str) and not value.isalnum() else str(value)
