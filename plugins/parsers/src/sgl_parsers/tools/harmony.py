"""gpt-oss: the harmony format, in which every message names its channel and, for a call, its recipient.

Source: the harmony response format's documentation. Headers are read leniently: models put stray text into them.
"""

from __future__ import annotations

import re

from sgl_core.api.parsers import CallSyntax, ParseContext, ReasoningDelta

from ..machine import Machine, Malformed, Wait, json_reader
from ..machine.source import Emit

_START, _CHANNEL, _MESSAGE, _CONSTRAIN = "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"
_END, _RETURN, _CALL = "<|end|>", "<|return|>", "<|call|>"
_ENDS = (_END, _RETURN, _CALL)
_BOUNDARY = (*_ENDS, _START, _CHANNEL)
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
_CHANNEL_NAME = re.compile(r"analysis|commentary|final")


class Harmony(Machine):
    """Analysis is reasoning, final and addressed-to-nobody commentary is content, ``to=functions.x`` is a call.

    It serves as reasoning parser and as tool parser: as the former it settles calls itself, and what comes behind it sees content only.
    """

    opens = (_START, _CHANNEL, _MESSAGE, *_ENDS)
    reasoning_begin = ""
    reasoning_end = "<|channel|>final<|message|>"

    @classmethod
    def thinks(cls, context: ParseContext) -> bool | None:
        """Always: what a constraint holds is the final message, whose header ends the thinking."""
        return True

    call_syntax = CallSyntax(begin="<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>", end=_CALL)

    def body(self, marker: str) -> Wait[None]:
        if marker in _ENDS:
            return
        header: list[str] = []
        found = marker
        while found in (_START, _CHANNEL):
            header.append(found if found == _CHANNEL else "")
            found = yield from self.source.until((_MESSAGE, _START, _CHANNEL, *_ENDS), header.append)
        text = "".join(header)
        if found == _MESSAGE:
            yield from self._message(text)
        elif found:
            self._without_message(text)

    def _message(self, header: str) -> Wait[None]:
        recipient = _RECIPIENT.search(header)
        channel = _CHANNEL_NAME.search(header)
        if recipient and recipient[1].startswith("functions.") and self.context.parse_tools:
            name = recipient[1].removeprefix("functions.")
            if (yield from self.attempt(lambda: self._call(name))):
                return
        if channel and channel.group() == "analysis" and not recipient:
            yield from self._until_end(self._reason)
            self._space = ""
            self._after_call = True
        else:
            yield from self._until_end(self.text)

    def _call(self, name: str) -> Wait[None]:
        self.calls.begin(name)
        yield from self.source.spaces()
        yield from json_reader.members(self.source, self.calls.arguments)
        yield from self.source.spaces()
        if (yield from self.source.peek()) and not (yield from self.source.accept(*_ENDS)):
            raise Malformed("text behind the arguments")
        self.calls.end()

    def _until_end(self, emit: Emit) -> Wait[None]:
        found = yield from self.source.until(_BOUNDARY, emit)
        if found in (_START, _CHANNEL):
            self.source.pos -= len(found)

    def _reason(self, text: str) -> None:
        self.events.append(ReasoningDelta(text))

    def _without_message(self, header: str) -> None:
        """A message whose header was never closed: what stands behind the channel's name is its text."""
        channel = _CHANNEL_NAME.search(header)
        rest = header[channel.end() :].strip() if channel else header.removeprefix("assistant").strip()
        if rest:
            (self._reason if channel and channel.group() == "analysis" else self.text)(rest)
