"""Reads one JSON value from a source while it arrives, emitting valid JSON text piece by piece.

Two repairs are made because models need them and no meaning is guessed: raw control characters inside strings are escaped, and a
backslash before a character that JSON cannot escape is doubled. Everything else that is not JSON (RFC 8259) is malformed.
"""

from __future__ import annotations

import json
import re

from .source import Emit, Malformed, Source, Wait

MAX_DEPTH = 64
"""Nesting beyond which a value is taken as malformed."""

_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_SCALAR_TEXT = re.compile(r"[-+.\w]*")


def value(source: Source, emit: Emit, depth: int = 0) -> Wait[None]:
    """Consume one JSON value, white space before it included. Raises :class:`Malformed`."""
    if depth > MAX_DEPTH:
        raise Malformed("nested too deep")
    yield from source.spaces()
    first = yield from source.peek()
    if first == '"':
        yield from string(source, emit)
    elif first == "{":
        yield from members(source, emit, depth)
    elif first == "[":
        yield from elements(source, emit, depth)
    else:
        emit((yield from scalar(source)))


def scalar(source: Source) -> Wait[str]:
    """Consume a number, true, false or null and return it."""
    size = 0
    while (yield from source.need(size + 1)):
        end = _SCALAR_TEXT.match(source.text, source.pos)
        assert end is not None
        size = end.end() - source.pos
        if end.end() < len(source.text):
            break
    word = source.text[source.pos : source.pos + size]
    if not _SCALAR.fullmatch(word):
        raise Malformed("not a JSON value")
    source.pos += size
    return word


def string(source: Source, emit: Emit) -> Wait[None]:
    """Consume a string, quotes included, emitting it as it comes."""
    yield from source.expect('"')
    emit('"')
    while True:
        if not (yield from source.need(1)):
            raise Malformed("the text ends inside a string")
        plain = _PLAIN.match(source.text, source.pos)
        if plain:
            emit(plain.group())
            source.pos = plain.end()
            continue
        char = source.text[source.pos]
        if char == '"':
            source.pos += 1
            emit('"')
            return
        if char == "\\":
            emit((yield from _escape(source)))
        else:
            source.pos += 1
            emit(json.dumps(char)[1:-1])


def _escape(source: Source) -> Wait[str]:
    if not (yield from source.need(2)):
        raise Malformed("the text ends inside an escape")
    kind = source.text[source.pos + 1]
    if kind == "u":
        full = yield from source.need(6)
        digits = source.text[source.pos + 2 : source.pos + 6]
        if full and re.fullmatch("[0-9a-fA-F]{4}", digits):
            source.pos += 6
            return "\\u" + digits
    if kind in '"\\/bfnrt':
        source.pos += 2
        return "\\" + kind
    source.pos += 1
    return "\\\\"


def plain_string(source: Source) -> Wait[str]:
    """Consume a string and return its decoded value; for names and other short strings."""
    pieces: list[str] = []
    yield from string(source, pieces.append)
    return str(json.loads("".join(pieces)))


def members(source: Source, emit: Emit, depth: int = 0) -> Wait[None]:
    """Consume an object."""
    yield from source.expect("{")
    emit("{")
    yield from source.spaces()
    if (yield from source.accept("}")):
        emit("}")
        return
    while True:
        key: list[str] = []
        yield from source.spaces()
        yield from string(source, key.append)
        yield from source.spaces()
        yield from source.expect(":")
        emit("".join(key) + ": ")
        yield from value(source, emit, depth + 1)
        yield from source.spaces()
        if (yield from source.expect(",", "}")) == "}":
            emit("}")
            return
        emit(", ")


def elements(source: Source, emit: Emit, depth: int = 0) -> Wait[None]:
    """Consume an array."""
    yield from source.expect("[")
    emit("[")
    yield from source.spaces()
    if (yield from source.accept("]")):
        emit("]")
        return
    while True:
        yield from value(source, emit, depth + 1)
        yield from source.spaces()
        if (yield from source.expect(",", "]")) == "]":
            emit("]")
            return
        emit(", ")
