"""Reads a call written as a JSON object: {"name": ..., "arguments": {...}} with the keys in any order and spelling of the family."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from . import json_reader
from .calls import CallSink
from .source import Malformed, Source, Wait


@dataclass(frozen=True)
class CallKeys:
    """The key names of a family's call objects."""

    name: frozenset[str] = frozenset({"name", "tool_name"})
    arguments: frozenset[str] = frozenset({"arguments", "parameters"})
    call_id: frozenset[str] = frozenset({"id", "tool_call_id"})


DEFAULT_KEYS = CallKeys()


@dataclass
class _Seen:
    name: str | None = None
    call_id: str | None = None
    arguments: str | None = None
    begun: bool = False
    other: list[str] = field(default_factory=list)


def call_object(source: Source, calls: CallSink, keys: CallKeys = DEFAULT_KEYS) -> Wait[None]:
    """Consume one call object. Arguments stream when the name came first. Raises :class:`Malformed` for any other object."""
    yield from source.spaces()
    yield from source.expect("{")
    seen = _Seen()
    while True:
        yield from source.spaces()
        if not seen.begun and not seen.other and (yield from source.accept("}")):
            break
        key = yield from json_reader.plain_string(source)
        yield from source.spaces()
        yield from source.expect(":")
        yield from _member(source, calls, keys, key, seen)
        yield from source.spaces()
        if (yield from source.expect(",", "}")) == "}":
            break
    if not seen.begun:
        if not seen.name:
            raise Malformed("a call without a name")
        calls.begin(seen.name, seen.call_id)
        calls.arguments(seen.arguments or "{}")
    calls.end()


def _member(source: Source, calls: CallSink, keys: CallKeys, key: str, seen: _Seen) -> Wait[None]:
    seen.other.append(key)
    yield from source.spaces()
    if key in keys.name:
        seen.name = yield from json_reader.plain_string(source)
    elif key == "function" and not seen.name and (yield from source.peek()) == "{":
        yield from _nested(source, keys, seen)
    elif key in keys.call_id and (yield from source.peek()) == '"':
        seen.call_id = yield from json_reader.plain_string(source)
    elif key in keys.arguments and seen.arguments is None and not seen.begun:
        yield from _arguments(source, calls, seen)
    else:
        yield from json_reader.value(source, lambda _: None, 1)


def _arguments(source: Source, calls: CallSink, seen: _Seen) -> Wait[None]:
    kind = yield from source.peek()
    if kind == "{" and seen.name:
        calls.begin(seen.name, seen.call_id)
        seen.begun = True
        yield from json_reader.members(source, calls.arguments)
        return
    pieces: list[str] = []
    yield from json_reader.value(source, pieces.append, 1)
    seen.arguments = as_object("".join(pieces))


def _nested(source: Source, keys: CallKeys, seen: _Seen) -> Wait[None]:
    """The OpenAI spelling {"function": {"name": ..., "arguments": ...}}."""
    pieces: list[str] = []
    yield from json_reader.members(source, pieces.append, 1)
    inner = json.loads("".join(pieces))
    for key, value in inner.items():
        if key in keys.name and isinstance(value, str):
            seen.name = value
        elif key in keys.arguments:
            seen.arguments = as_object(json.dumps(value, ensure_ascii=False))


def as_object(text: str) -> str:
    """Arguments as the text of a JSON object; a string that holds one is opened, null is empty. Raises :class:`Malformed`."""
    value = json.loads(text)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise Malformed("arguments are a string that is not JSON") from error
        text = json.dumps(value, ensure_ascii=False)
    if value is None:
        return "{}"
    if not isinstance(value, dict):
        raise Malformed("arguments are not an object")
    return text
