"""Writes llguidance's Lark dialect: choices, and tool calls in a model family's own syntax."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sgl_core.api.grammar import GrammarError
from sgl_core.api.parsers import CallSyntax

from .schema.read import read_schema
from .schema.walk import resolve


def literal(text: str, special: Mapping[str, int] | None = None) -> str:
    """Lark terms that match a text; parts that are special tokens match as these tokens."""
    for name, token in sorted((special or {}).items(), key=lambda item: -len(item[0])):
        before, found, after = text.partition(name)
        if found:
            return " ".join(t for t in (literal(before, special), f"<[{token}]>", literal(after, special)) if t)
    return json.dumps(text, ensure_ascii=False) if text else ""


def choice(choices: list[str]) -> str:
    """One of the strings."""
    return "start: " + " | ".join(literal(c) for c in choices) + "\n"


def tool_calls(text: str, special: Mapping[str, int]) -> str:
    """A grammar for calls; see :func:`sgl_core.api.grammar.tool_call_request` for what ``text`` holds."""
    wanted = json.loads(text)
    syntax: Mapping[str, str] = wanted["syntax"]
    marker = "" if wanted["required"] else _marker(syntax)
    rules: list[str] = []
    for index, tool in enumerate(wanted["tools"]):
        begin = syntax["begin"] if syntax["section_begin"] else syntax["begin"].removeprefix(marker)
        parts = begin.replace("{name}", tool["name"]).split("{index}")
        begun = " /[0-9]{1,3}/ ".join(literal(part, special) for part in parts)
        arguments = _arguments(syntax, tool, index, special, rules)
        rules.append(f"call_{index}: {begun} {arguments} {literal(syntax['end'], special)}")
    rules.append("call: " + " | ".join(f"call_{i}" for i in range(len(wanted["tools"]))))
    if wanted["required"]:
        more = f"({literal(syntax['separator'], special)} call)*" if wanted["parallel"] else ""
        rules.append(
            f"start: {literal(syntax['section_begin'], special)} call {more} {literal(syntax['section_end'], special)}"
        )
    else:
        rules += _among_text(syntax, marker, wanted["parallel"], special)
    return "\n".join(["%llguidance {}", *rules]) + "\n"


def _marker(syntax: Mapping[str, str]) -> str:
    """What begins the first call: the section's opening, or the bracketed marker at the front of a call."""
    marker = CallSyntax(**syntax).marker
    if not marker:
        raise GrammarError("this model family's calls begin with no marker, so strict tools cannot be held among text")
    return marker


def _among_text(syntax: Mapping[str, str], marker: str, parallel: bool, special: Mapping[str, int]) -> list[str]:
    """Rules for text in which calls may stand: once the marker has come, a call must follow.

    A marker written out is a lazy lexeme: the text before it ends where it first appears.
    """
    term = literal(marker, special)
    lazy = "" if term.startswith("<[") else "[lazy]"
    more = f"({literal(syntax['separator'], special)} call)*" if parallel and syntax["section_begin"] else ""
    many = "*" if parallel and not syntax["section_begin"] else "?"
    return [
        f"start: (lead call {more} {literal(syntax['section_end'], special)}){many} TEXT",
        f"lead{lazy}: TEXT {term}",
        "TEXT: /(?s:.*)/",
    ]


def _arguments(
    syntax: Mapping[str, str], tool: Mapping[str, Any], index: int, special: Mapping[str, int], rules: list[str]
) -> str:
    """The terms for one tool's arguments; rules of their own are appended to ``rules``."""
    schema = read_schema(json.dumps(tool["parameters"] or {"type": "object"}))
    if syntax["arguments"] == "json":
        rules.append(f"arguments_{index}: %json {json.dumps(schema)}")
        return f"arguments_{index}"
    if syntax["arguments"] != "parameter_tags":
        raise GrammarError("this model family's calls cannot be enforced by a grammar")
    if not isinstance(schema, dict):
        raise GrammarError(f"the parameters of {tool['name']} are not an object schema")
    terms: list[str] = []
    required = set(schema.get("required", ()))
    for number, (key, declared) in enumerate(schema.get("properties", {}).items()):
        name = f"parameter_{index}_{number}"
        is_text = _is_text(declared, schema)
        begin = syntax["parameter_begin"].replace("{key}", key).replace("{string}", str(is_text).lower())
        end = syntax["parameter_end"]
        if is_text:
            rules.append(f"{name}_text[suffix={json.dumps(end, ensure_ascii=False)}]: /(?s:.*)/")
            rules.append(f"{name}: {literal(begin, special)} {name}_text")
        else:
            inner = {**declared, **{k: schema[k] for k in ("$defs", "definitions") if k in schema}}
            rules.append(f"{name}_value: %json {json.dumps(inner)}")
            rules.append(f"{name}: {literal(begin, special)} {name}_value {literal(end, special)}")
        terms.append(name if key in required else f"{name}?")
    return " ".join(terms)


def _is_text(declared: Any, root: Mapping[str, Any]) -> bool:
    """Whether a parameter is written as bare text; constrained strings are written as their alternatives."""
    if isinstance(declared, Mapping) and "$ref" in declared:
        declared = resolve(root, declared["$ref"])
    if not isinstance(declared, Mapping) or declared.get("type") != "string":
        return False
    limits = {"enum", "const", "pattern", "format", "minLength", "maxLength"} & set(declared)
    if limits:
        raise GrammarError(f"a text parameter with {min(limits)} cannot be enforced in this family's tag syntax")
    return True
