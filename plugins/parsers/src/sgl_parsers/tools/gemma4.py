"""Gemma 4 and FunctionGemma: ``call:name{key:value}`` with strings between quote tokens and bare keys."""

from __future__ import annotations

import json
import re

from sgl_core.api.parsers import CallSyntax

from ..machine import Machine, Malformed, Wait, json_reader
from ..machine.json_reader import MAX_DEPTH

_KEY = re.compile(r"[^\s:{}\[\],\"'<]+")


class Gemma4(Machine):
    """``<|tool_call>call:name{key:<|"|>text<|"|>,count:3}<tool_call|>``."""

    opens: tuple[str, ...] = ("<|tool_call>",)
    closes: tuple[str, ...] = ("<tool_call|>",)
    quote = '<|"|>'
    call_syntax: CallSyntax | None = None

    def body(self, marker: str) -> Wait[None]:
        yield from self.repeated(self._call, "call:")
        yield from self.skip(*self.closes)

    def _call(self) -> Wait[None]:
        yield from self.source.spaces()
        yield from self.source.expect("call:")
        name = (yield from self.until("{")).strip()
        if not name or any(c.isspace() for c in name):
            raise Malformed("no function name")
        self.source.pos -= 1
        self.calls.begin(name)
        yield from self._members(0)
        self.calls.end()

    def _value(self, depth: int) -> Wait[None]:
        source, emit = self.source, self.calls.arguments
        if depth > MAX_DEPTH:
            raise Malformed("nested too deep")
        yield from source.spaces()
        found = yield from source.at((self.quote, '"', "{", "["))
        if found == self.quote:
            source.pos += len(found)
            emit('"')
            if not (yield from source.until((self.quote,), lambda t: emit(json.dumps(t, ensure_ascii=False)[1:-1]))):
                raise Malformed("a string is not closed")
            emit('"')
        elif found == '"':
            yield from json_reader.string(source, emit)
        elif found == "{":
            yield from self._members(depth + 1)
        elif found == "[":
            yield from self._elements(depth + 1)
        else:
            emit((yield from json_reader.scalar(source)))

    def _members(self, depth: int) -> Wait[None]:
        source, emit = self.source, self.calls.arguments
        yield from source.expect("{")
        emit("{")
        yield from source.spaces()
        closed = bool((yield from source.accept("}")))
        while not closed:
            key = (yield from self.until(":")).strip().removeprefix(self.quote).removesuffix(self.quote).strip('"')
            if not _KEY.fullmatch(key):
                raise Malformed("not a key")
            emit(json.dumps(key, ensure_ascii=False) + ": ")
            yield from self._value(depth)
            yield from source.spaces()
            closed = (yield from source.expect(",", "}")) == "}"
            emit("" if closed else ", ")
            yield from source.spaces()
        emit("}")

    def _elements(self, depth: int) -> Wait[None]:
        source, emit = self.source, self.calls.arguments
        yield from source.expect("[")
        emit("[")
        yield from source.spaces()
        closed = bool((yield from source.accept("]")))
        while not closed:
            yield from self._value(depth)
            yield from source.spaces()
            closed = (yield from source.expect(",", "]")) == "]"
            emit("" if closed else ", ")
        emit("]")


class FunctionGemma(Gemma4):
    """``<start_function_call>call:name{key:<escape>text<escape>}<end_function_call>``."""

    opens = ("<start_function_call>",)
    closes = ("<end_function_call>",)
    quote = "<escape>"
