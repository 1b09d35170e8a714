"""The jinja environment in which chat templates run: sandboxed, with what Hugging Face templates expect to find."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment


class TemplateRefused(Exception):
    """The template itself refused the conversation, by ``raise_exception``."""


class GenerationBlocks(Extension):
    """``{% generation %} ... {% endgeneration %}`` marks assistant text for training; for prompts it is just its content."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def make_environment() -> jinja2.Environment:
    """A fresh environment; templates compiled in it can neither reach Python objects' insides nor change their arguments."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, GenerationBlocks]
    )
    environment.filters["tojson"] = _to_json
    functions: dict[str, Callable[..., Any]] = {"raise_exception": _raise, "strftime_now": _strftime_now}
    environment.globals.update(functions)
    return environment


def _raise(message: str) -> None:
    raise TemplateRefused(str(message))


def _strftime_now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it is, without jinja's own escaping for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def wants_parts(environment: jinja2.Environment, source: str) -> bool:
    """Whether a template walks over the parts of a message's content, or else takes it for one text.

    Told from the syntax tree: a loop over ``X.content`` or ``X['content']``, or over a variable that was set from it.
    """
    tree = environment.parse(source)
    names: set[str] = set()
    for assign in tree.find_all(nodes.Assign):
        if isinstance(assign.target, nodes.Name) and _is_content(assign.node, names):
            names.add(assign.target.name)
    return any(_is_content(loop.iter, names) for loop in tree.find_all(nodes.For))


def _is_content(node: nodes.Node, names: set[str]) -> bool:
    if isinstance(node, nodes.Filter):
        return node.node is not None and _is_content(node.node, names)
    if isinstance(node, nodes.Getattr):
        return node.attr == "content"
    if isinstance(node, nodes.Getitem):
        return isinstance(node.arg, nodes.Const) and node.arg.value == "content"
    return isinstance(node, nodes.Name) and node.name in names
