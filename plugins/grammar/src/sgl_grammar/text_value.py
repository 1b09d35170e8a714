"""A tool's parameter as tag syntaxes write it: strings as bare text, held by an expression, everything else as JSON.

The parsers read a text by the types that the schema declares; a text that would be read as something else is not generated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator

from sgl_core.api.grammar import GrammarError

from .schema.pattern import FORMATS, escape, whole
from .schema.plain import ANNOTATIONS
from .schema.walk import resolve

MAX_TEXT = 1024
"""Characters of a text with a length bound: the lexer counts them one by one. A larger maxLength is held to this."""

_OTHER_TYPES = ("object", "array", "number", "boolean", "null")
_OF_STRINGS = ("pattern", "format", "minLength", "maxLength")
_NUMBER = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?"
_PLAIN_NUMBER = r"-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,15})?"
_LOOKS = {
    "object": r"\{(?s:.*)",
    "array": r"\[(?s:.*)",
    "number": _NUMBER,
    "integer": _NUMBER,
    "boolean": "(?i:true|false)",
    "null": "(?i:null|none)",
}


@dataclass(frozen=True, slots=True)
class Split:
    """A parameter's schema in two: the texts it allows, and schemas for values that are no strings; each is one alternative."""

    texts: tuple[Mapping[str, Any], ...] = ()
    others: tuple[Mapping[str, Any], ...] = ()
    types: frozenset[str] = frozenset()
    """What the values that are no strings may be."""

    @property
    def scalars(self) -> list[str]:
        """Expressions for those of ``others`` that are no more than words and numbers."""
        return [piece for other in self.others for piece in _scalars(other) or ()]

    @property
    def structured(self) -> list[Mapping[str, Any]]:
        """The rest of ``others``."""
        return [other for other in self.others if _scalars(other) is None]


def split(declared: Any, root: Mapping[str, Any], depth: int = 0) -> Split:
    """Raises :class:`GrammarError` naming the keyword that keeps a parameter which may be a string from being split."""
    if depth > 8:
        raise GrammarError("a parameter's references nest too deep")
    if declared is True:
        declared = {}
    if not isinstance(declared, Mapping):
        raise GrammarError("a parameter's schema allows no value")
    reference = declared.get("$ref")
    if isinstance(reference, str):
        rest = {k: v for k, v in declared.items() if k != "$ref"}
        try:
            target = resolve(root, reference)
        except KeyError:
            raise GrammarError(f"the reference {reference} leads nowhere") from None
        return split(
            {**target, **rest} if isinstance(target, Mapping) and not set(target) & set(rest) else target,
            root,
            depth + 1,
        )
    for key in ("anyOf", "oneOf"):
        if key in declared:
            return _alternatives(declared, key, root, depth)
    if "enum" in declared or "const" in declared:
        return _values(declared)
    kinds = declared.get("type", ["string", *_OTHER_TYPES])
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    others = [kind for kind in kinds if kind != "string"]
    if "string" not in kinds:
        return Split((), (declared,), frozenset(others))
    held_elsewhere = {"allOf", "not", "if"} & set(declared)
    if held_elsewhere:
        raise GrammarError(
            f"a text parameter with {min(held_elsewhere)} cannot be enforced in this family's tag syntax"
        )
    text = {k: declared[k] for k in _OF_STRINGS if k in declared}
    return Split((text,), tuple({**declared, "type": kind} for kind in others), frozenset(others))


def expression(
    texts: Sequence[Mapping[str, Any]], looks: frozenset[str], tags: Sequence[str], *, counted: bool = False
) -> str:
    """A terminal's body for texts that meet one of ``texts``, look like none of the types ``looks`` and hold none of the family's ``tags``.

    ``counted`` keeps texts from beginning as a number does, for the lexer would prefer the text where a number is meant.
    """
    alternatives = [" & ".join(f"/({part})/" for part in _parts(text, looks, tags)) for text in texts]
    out = " | ".join(f"({a})" for a in alternatives if a) or "/(?s:.*)/"
    barred = [f"(?s:.*)({'|'.join(map(escape, tags))})(?s:.*)"] if tags else []
    barred += [rf"\s*({_LOOKS[kind]})\s*" for kind in sorted(looks)]
    if counted:
        barred.append(r"\s*[-0-9](?s:.*)")
    return f"({out}) & ~/{'|'.join(barred)}/" if barred else out


def _parts(text: Mapping[str, Any], looks: frozenset[str], tags: Sequence[str]) -> list[str]:
    if "enum" in text:
        values = [v for v in text["enum"] if not any(tag in v for tag in tags) and not _looks_like(v, looks)]
        if not values:
            raise GrammarError("none of the values of an enum can be written in this family's tag syntax")
        return ["|".join(escape(value) for value in values)]
    parts = [whole(text["pattern"])] if "pattern" in text else []
    if "format" in text:
        if text["format"] not in FORMATS:
            raise GrammarError(
                f"a text parameter with format {text['format']} cannot be enforced in this family's tag syntax"
            )
        parts.append(FORMATS[text["format"]].replace("/", "\\x{2f}"))
    low, high = int(text.get("minLength", 0)), text.get("maxLength")
    if low > MAX_TEXT or (high is not None and high < low):
        raise GrammarError(f"a text parameter with minLength {low} cannot be enforced in this family's tag syntax")
    if low or high is not None:
        parts.append(f"(?s:.{{{low},{'' if high is None else min(int(high), MAX_TEXT)}}})")
    return parts


def _looks_like(value: str, looks: frozenset[str]) -> bool:
    return any(re.fullmatch(rf"\s*({_LOOKS[kind]})\s*", value) for kind in looks)


def _alternatives(declared: Mapping[str, Any], key: str, root: Mapping[str, Any], depth: int) -> Split:
    parts = [split(part, root, depth + 1) for part in declared[key]]
    texts = tuple(text for part in parts for text in part.texts)
    if not texts:
        return Split((), (declared,), frozenset().union(*(part.types for part in parts)))
    beside = set(declared) & {"type", "enum", "const", "allOf", "not", "if", *_OF_STRINGS}
    if beside or (key == "oneOf" and sum(bool(part.texts) for part in parts) > 1):
        raise GrammarError(f"a text parameter with {key} cannot be enforced in this family's tag syntax")
    others = tuple(other for part in parts for other in part.others)
    if key == "oneOf" and len(others) > 1:
        others = ({key: list(others)},)
    return Split(texts, others, frozenset().union(*(part.types for part in parts)))


def _values(declared: Mapping[str, Any]) -> Split:
    rest = {k: v for k, v in declared.items() if k not in ("enum", "const", "$defs", "definitions")}
    values = declared["enum"] if "enum" in declared else [declared["const"]]
    if "const" in declared:
        values = [value for value in values if value == declared["const"]]
    checker = Draft202012Validator(rest)
    strings = [v for v in values if isinstance(v, str) and checker.is_valid(v)]
    others = [v for v in values if not isinstance(v, str)]
    if strings and "format" in rest:
        raise GrammarError("a text parameter with format beside enum cannot be enforced in this family's tag syntax")
    if not strings and not others:
        raise GrammarError("a parameter's enum allows no value")
    kinds = rest.get("type", [])
    types = frozenset([kinds] if isinstance(kinds, str) else kinds) - {"string"} | {_type_of(v) for v in others}
    return Split(({"enum": strings},) if strings else (), ({**rest, "enum": others},) if others else (), types)


def _scalars(other: Mapping[str, Any]) -> list[str] | None:
    """The values a schema allows as expressions, where it says no more than types or scalar values; else None."""
    said = set(other) - ANNOTATIONS - {"$defs", "definitions"}
    if said == {"enum"} or (said == {"enum", "type"}):
        values = other["enum"]
        return None if any(isinstance(v, (list, dict)) for v in values) else [escape(json.dumps(v)) for v in values]
    pieces = {"null": "null", "boolean": "true|false", "integer": "-?(0|[1-9][0-9]{0,15})", "number": _PLAIN_NUMBER}
    kind = other.get("type")
    return [pieces[kind]] if set(said) == {"type"} and kind in pieces else None


def _type_of(value: Any) -> str:
    kinds = ((bool, "boolean"), (int, "number"), (float, "number"), (list, "array"), (dict, "object"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


def as_json(schema: Any, root: Mapping[str, Any]) -> str:
    """A schema with the definitions it may refer to, as text."""
    return json.dumps({**schema, **{k: root[k] for k in ("$defs", "definitions") if k in root}})
