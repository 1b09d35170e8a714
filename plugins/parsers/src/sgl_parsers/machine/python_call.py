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


def _until_closed(source: Source) -> Wait[str]:
    """The text up to the parenthesis that closes the call, which is consumed; brackets in strings do not count."""
    start, at, stack, quote = source.pos, source.pos, ["("], ""
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
        elif char in _CLOSES:
            if stack.pop() != _CLOSES[char]:
                raise Malformed("brackets do not match")
            if not stack:
                source.pos = at
                return source.text[start : at - 1]


def _arguments(text: str, names: list[str]) -> dict[str, Any]:
    try:
        call = ast.parse(f"f({text})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Malformed("not a Python call") from error
    if not isinstance(call, ast.Call) or len(call.args) > len(names):
        raise Malformed("positional arguments without declared parameters")
    out = {name: _literal(node) for name, node in zip(names, call.args, strict=False)}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in out:
            raise Malformed("not plain keyword arguments")
        out[keyword.arg] = _literal(keyword.value)
    return out


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
