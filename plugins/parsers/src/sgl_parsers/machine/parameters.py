"""Builds a call's arguments object from parameters that the model writes as tagged text, in the types its tool declares."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sgl_core.api.parsers import ParseContext

from .calls import CallSink
from .schema_types import as_json, declared_types
from .source import Emit, Malformed, Source, Wait


class Arguments:
    """The arguments object of one open call: parameters go in one by one, JSON text goes to the sink."""

    def __init__(self, context: ParseContext, calls: CallSink, name: str, call_id: str | None = None) -> None:
        self._context = context
        self._calls = calls
        self._name = name
        self._first = True
        calls.begin(name, call_id)
        calls.arguments("{")

    def types(self, parameter: str) -> frozenset[str]:
        """The declared types of a parameter."""
        return declared_types(self._context.tools, self._name, parameter)

    def key(self, parameter: str) -> None:
        """A parameter begins."""
        self._calls.arguments(("" if self._first else ", ") + json.dumps(parameter, ensure_ascii=False) + ": ")
        self._first = False

    def put(self, parameter: str, text: str, types: frozenset[str] | None = None) -> None:
        """A whole parameter as text."""
        self.key(parameter)
        self._calls.arguments(as_json(text, self.types(parameter) if types is None else types))

    def stream(self, text: str) -> None:
        """A piece of a string parameter between two quotes that the caller sends."""
        self._calls.arguments(text)

    def close(self) -> None:
        """The object is complete."""
        self._calls.arguments("}")
        self._calls.end()


class StringValue:
    """Streams a string parameter as JSON, dropping one newline at either end where the family writes them for layout."""

    def __init__(self, arguments: Arguments, trim: bool) -> None:
        self._arguments = arguments
        self._trim = trim
        self._begun = False
        self._newline = ""
        arguments.stream('"')

    def add(self, text: str) -> None:
        if not text:
            return
        if self._trim and not self._begun:
            text = text.removeprefix("\n")
        self._begun = True
        text = self._newline + text
        self._newline = ""
        if self._trim and text.endswith("\n"):
            self._newline, text = "\n", text[:-1]
        self._arguments.stream(json.dumps(text, ensure_ascii=False)[1:-1])

    def end(self) -> None:
        self._arguments.stream('"')


def tagged_value(
    source: Source,
    arguments: Arguments,
    parameter: str,
    *,
    closer: str,
    followers: tuple[str, ...],
    cut_short: Mapping[str, tuple[str, ...]] | None = None,
    trim: bool = False,
    types: frozenset[str] | None = None,
) -> Wait[None]:
    """Consume a parameter's value up to its ``closer``.

    The closer counts only where one of ``followers`` or the end of the text comes behind it, so a literal closing tag inside the value is
    data. A marker of ``cut_short`` (with followers of its own, none = any) ends a value whose closer is missing; it is left unread.
    """
    types = arguments.types(parameter) if types is None else types
    ends = {closer: followers, **(cut_short or {})}
    pieces: list[str] = []
    writer: StringValue | None = None
    if types == frozenset({"string"}):
        arguments.key(parameter)
        writer = StringValue(arguments, trim)
    add: Emit = writer.add if writer else pieces.append
    while True:
        marker = yield from source.until(ends, add)
        if not marker:
            raise Malformed("the text ends inside a parameter")
        if not ends[marker] or (yield from source.after_spaces(ends[marker])):
            break
        add(marker)
    if marker != closer:
        source.pos -= len(marker)
    if writer:
        writer.end()
        return
    text = "".join(pieces)
    arguments.put(parameter, text.removeprefix("\n").removesuffix("\n") if trim else text, types)
