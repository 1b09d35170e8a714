"""Writes llguidance's Lark dialect: choices, and tool calls in a model family's own syntax."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from sgl_core.api.grammar import GrammarError
from sgl_core.api.parsers import CallSyntax

from .schema.plain import ANNOTATIONS
from .schema.read import read_schema
from .text_value import Split, as_json, expression, split

_HELD = frozenset(
    {"type", "properties", "required", "additionalProperties", "unevaluatedProperties", "$defs", "definitions"}
)
"""Keywords of a parameters schema that hold when its declared properties are written in order and no others."""


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
    unheld = sorted(set(schema) - _HELD - ANNOTATIONS) if isinstance(schema, dict) else ["true"]
    missing = sorted(set(schema.get("required", ())) - set(schema.get("properties", ()))) if not unheld else []
    if unheld or missing or schema.get("type", "object") != "object":
        what = f"keyword {unheld[0]}" if unheld else f"required but undeclared {missing[0]}" if missing else "type"
        raise GrammarError(f"the parameters of {tool['name']} cannot be enforced in this family's tag syntax: {what}")
    terms: list[str] = []
    required = set(schema.get("required", ()))
    tags = _tags(syntax)
    for number, (key, declared) in enumerate(schema.get("properties", {}).items()):
        name = f"parameter_{index}_{number}"
        try:
            ways = _ways(syntax, name, key, split(declared, schema), schema, tags, special, rules)
        except GrammarError as error:
            raise GrammarError(f"{tool['name']}, parameter {key}: {error}") from None
        rules.append(f"{name}: {' | '.join(ways)}")
        terms.append(name if key in required else f"{name}?")
    return " ".join(terms)


def _ways(
    syntax: Mapping[str, str],
    name: str,
    key: str,
    value: Split,
    root: Mapping[str, Any],
    tags: list[str],
    special: Mapping[str, int],
    rules: list[str],
) -> list[str]:
    """How one parameter may be written: as bare text, as JSON, or either; rules of their own are appended to ``rules``."""

    def begin(text: bool) -> str:
        return literal(syntax["parameter_begin"].replace("{key}", key).replace("{string}", str(text).lower()), special)

    end, ways = syntax["parameter_end"], []
    looks = frozenset[str]() if "{string}" in syntax["parameter_begin"] else value.types
    counted = any(_counts(other) for other in value.structured)
    terminals = [(True, expression(value.texts, looks, tags, counted=counted))] if value.texts else []
    if value.texts:  # a lexer that could also read a text reads nothing shorter, so words and numbers end as texts do
        terminals += [(False, f"/({'|'.join(value.scalars)})/")] if value.scalars else []
        others = value.structured
    else:
        others = list(value.others)
    for number, (text, body) in enumerate(terminals):
        term = f"{name}_{number}".upper()
        rules.append(f"{term}: {body}")
        if any(marker in end for marker in special):
            ways.append(f"{begin(text)} {term} {literal(end, special)}")
        else:
            rules.append(f"{name}_{number}_ended[suffix={json.dumps(end, ensure_ascii=False)}]: {term}")
            ways.append(f"{begin(text)} {name}_{number}_ended")
    if others:
        rules.append(f"{name}_value: %json {as_json(others[0] if len(others) == 1 else {'anyOf': others}, root)}")
        ways.append(f"{begin(False)} {name}_value {literal(end, special)}")
    return ways


def _counts(schema: Mapping[str, Any]) -> bool:
    """Whether a schema's values may begin as numbers do, as far as its type tells."""
    return schema.get("type") not in ("object", "array", "boolean", "null")


def _tags(syntax: Mapping[str, str]) -> list[str]:
    """What a text must not hold, for it would end the parameter or the call where it is read."""
    begin = syntax["parameter_begin"].split("{")[0]
    closing = re.findall(r"<[^>]+>", syntax["parameter_end"] + syntax["end"])
    return list(dict.fromkeys([*(tag for tag in (begin.strip(),) if tag), *closing]))
