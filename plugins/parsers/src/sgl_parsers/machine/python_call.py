"""Reads a call written as a Python expression, ``get_weather(city="Paris", days=[1, 2])``, without ever evaluating it."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from sgl_core.api.parsers import ParseContext

from .calls import CallSink
from .schema_types import parameter_order
from .source import Malformed, Source, Wait

MAX_CALL = 1 << 20
"""Characters after which an unclosed call is given up as text."""

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_NAMED = re.compile(r"\s*(\w+)\s*=(?!=)")
_WORDS = {"true": True, "false": False, "null": None, "none": None}
_CLOSES = {")": "(", "]": "[", "}": "{"}


def python_call(source: Source, calls: CallSink, context: ParseContext) -> Wait[None]:
    """Consume one call. Raises :class:`Malformed`."""
    name = yield from _name(source)
    yield from source.expect("(")
    inside = yield from _until_closed(source)
    arguments = _arguments(inside, parameter_order(context.tools, name))
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise Malformed("a number that JSON cannot hold") from error
    calls.begin(name)
    calls.arguments(text)
    calls.end()


def _name(source: Source) -> Wait[str]:
    size = 0
    while (yield from source.need(size + 1)):
        found = _NAME.match(source.text, source.pos)
        if not found:
            raise Malformed("no function name")
        size = found.end() - source.pos
        if found.end() < len(source.text):
            break
    name = source.text[source.pos : source.pos + size]
    if not name:
        raise Malformed("no function name")
    source.pos += size
    return name


def _until_closed(source: Source) -> Wait[list[str]]:
    """The arguments up to the parenthesis that closes the call, which is consumed; brackets and commas in strings do not count."""
    start, at, stack, quote = source.pos, source.pos, ["("], ""
    arguments: list[str] = []
    begun = start
    while True:
        if at - start > MAX_CALL or not (yield from source.need(at - source.pos + 1)):
            raise Malformed("the call is not closed")
        char = source.text[at]
        at += 1
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "\"'":
            quote = char
        elif char in "([{":
            stack.append(char)
        elif char == "," and len(stack) == 1:
            arguments.append(source.text[begun : at - 1])
            begun = at
        elif char in _CLOSES:
            if stack.pop() != _CLOSES[char]:
                raise Malformed("brackets do not match")
            if not stack:
                source.pos = at
                last = source.text[begun : at - 1]
                return [*arguments, last] if last.strip() else arguments


def _arguments(texts: list[str], names: list[str]) -> dict[str, Any]:
    """Arguments by name; those without a name take the declared parameters in order."""
    out: dict[str, Any] = {}
    for position, text in enumerate(texts):
        named = _NAMED.match(text)
        if not named and (position >= len(names) or len(out) > position):
            raise Malformed("a positional argument without a declared parameter")
        key = named[1] if named else names[position]
        if key in out:
            raise Malformed("an argument is given twice")
        out[key] = _value(text[named.end() :] if named else text)
    return out


def _value(text: str) -> Any:
    try:
        return _literal(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Malformed("an argument is not a literal") from error


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, (str, int, float, bool))):
        return node.value
    if isinstance(node, ast.Name) and node.id.lower() in _WORDS:
        return _WORDS[node.id.lower()]
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.Dict) and all(isinstance(k, ast.Constant) for k in node.keys):
        return {
            str(k.value): _literal(v)
            for k, v in zip(node.keys, node.values, strict=True)
            if isinstance(k, ast.Constant)
        }
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = _literal(node.operand)
        if isinstance(value, (int, float)):
            return -value if isinstance(node.op, ast.USub) else value
    raise Malformed("an argument is not a literal")
