"""Reads ``<<call name {...}>>``. Text is held back while it may still become a call, so every cut of it gives the same events."""

from __future__ import annotations

import json
import re

from sgl_core.api.parsers import CallArguments, CallStart, CallSyntax, ParseContext, ParseEvent, TextDelta

_OPEN = "<<call "
_CALL = re.compile(r"<<call ([\w.-]+) (\{.*?\})>>", re.DOTALL)


class ExampleCalls:
    """An output parser: ``feed`` takes the model's text as it comes, ``finish`` gives what is left."""

    call_syntax = CallSyntax(begin=_OPEN + "{name} ", end=">>")

    def __init__(self, context: ParseContext) -> None:
        self._text = ""
        self._calls = 0

    def feed(self, delta: str) -> list[ParseEvent]:
        self._text += delta
        events: list[ParseEvent] = []
        while found := _CALL.search(self._text):
            if not _is_object(found[2]):
                break
            events += self._plain(found.start())
            events += [CallStart(self._calls, found[1]), CallArguments(self._calls, found[2])]
            self._calls += 1
            self._text = self._text[found.end() - found.start() :]
        return events + self._plain(self._certain())

    def finish(self) -> list[ParseEvent]:
        return self._plain(len(self._text))

    def _plain(self, size: int) -> list[ParseEvent]:
        text, self._text = self._text[:size], self._text[size:]
        return [TextDelta(text)] if text else []

    def _certain(self) -> int:
        """How much of the text cannot be part of a call any more."""
        at = self._text.find(_OPEN)
        if at >= 0:
            return at
        held = next((n for n in range(len(_OPEN) - 1, 0, -1) if self._text.endswith(_OPEN[:n])), 0)
        return len(self._text) - held


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
