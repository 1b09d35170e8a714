"""The plain part of JSON schema: what the automata of xgrammar and outlines hold exactly, found by testing them keyword by keyword.

A schema outside it is not weakened: the backend passes it on to llguidance, which holds it exactly or refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .walk import resolve, step, subschemas

ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema"}
)
_DEFINITIONS = frozenset({"$defs", "definitions"})
_BY_TYPE: Mapping[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "string": frozenset({"minLength", "maxLength"}),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    "number": frozenset(),
    "boolean": frozenset(),
    "null": frozenset(),
}


def not_plain(schema: Any) -> str:
    """The pointer of the first part that is not plain; empty when all is plain."""
    if not isinstance(schema, Mapping):
        return "/"
    for pointer, node in subschemas(schema):
        problem = _problem(node, schema)
        if problem:
            return step(pointer, problem)
    return ""


def _problem(node: Any, root: Mapping[str, Any]) -> str:
    """The keyword of one schema object that is not plain, or an empty string."""
    if node is False:
        return ""
    if not isinstance(node, Mapping):
        return "true"
    keys = set(node) - ANNOTATIONS - _DEFINITIONS
    if "$ref" in keys:
        return "" if keys == {"$ref"} and _plain_reference(node["$ref"], root) else "$ref"
    if "anyOf" in keys:
        return "" if keys == {"anyOf"} else "anyOf"
    if "enum" in keys or "const" in keys:
        return "" if len(keys - {"type"}) == 1 and _scalars(node) else "enum"
    kind = node.get("type")
    if not isinstance(kind, str):
        return "type"
    extra = keys - {"type"} - _BY_TYPE[kind]
    if extra:
        return str(min(extra))
    return _object_problem(node) if kind == "object" else ""


def _object_problem(node: Mapping[str, Any]) -> str:
    """Only closed objects are plain: an open one would let a declared name through with any value."""
    if node.get("additionalProperties") is not False:
        return "additionalProperties"
    return "" if set(node.get("required", ())) <= set(node.get("properties", ())) else "required"


def _plain_reference(reference: str, root: Mapping[str, Any]) -> bool:
    parts = reference.split("/")
    if len(parts) != 3 or parts[0] != "#" or parts[1] not in _DEFINITIONS or "%" in reference or "~" in reference:
        return False
    try:
        resolve(root, reference)
    except KeyError:
        return False
    return True


def _scalars(node: Mapping[str, Any]) -> bool:
    values = node.get("enum", [node.get("const")])
    kinds = {"string": str, "boolean": bool, "null": type(None)}
    if "type" not in node:
        return all(isinstance(v, tuple(kinds.values())) for v in values)
    kind = kinds.get(node["type"]) if isinstance(node["type"], str) else None
    return kind is not None and all(isinstance(v, kind) for v in values)
