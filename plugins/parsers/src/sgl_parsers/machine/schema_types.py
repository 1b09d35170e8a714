"""What a tool's JSON schema says about one parameter's type, so that text values become the JSON that was declared, never guessed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_OF_VALUE: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)
ANY = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})


def function_schema(tools: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """The parameters schema of the tool ``name``; empty when it is not declared. Takes OpenAI tools or bare functions."""
    for tool in tools:
        function = tool.get("function", tool)
        if isinstance(function, Mapping) and function.get("name") == name:
            schema = function.get("parameters") or function.get("input_schema") or {}
            return schema if isinstance(schema, Mapping) else {}
    return {}


def parameter_order(tools: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    """The declared parameter names in order."""
    return list(function_schema(tools, name).get("properties") or {})


def declared_types(tools: Sequence[Mapping[str, Any]], name: str, parameter: str) -> frozenset[str]:
    """The JSON types the parameter may have. ``{"string"}`` when nothing is declared: text stays text."""
    root = function_schema(tools, name)
    declared = (root.get("properties") or {}).get(parameter)
    if declared is None:
        extra = root.get("additionalProperties")
        declared = extra if isinstance(extra, Mapping) else None
    if declared is None:
        return frozenset({"string"})
    return _types(declared, root, 0)


def _types(schema: Any, root: Mapping[str, Any], depth: int) -> frozenset[str]:
    if not isinstance(schema, Mapping) or depth > 8:
        return ANY
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target: Any = root
        for step in reference[2:].split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and step.isdigit() and int(step) < len(target):
                target = target[int(step)]
            elif isinstance(target, Mapping):
                target = target.get(step, {})
            else:
                return ANY
        return _types(target, root, depth + 1)
    declared = schema.get("type")
    if isinstance(declared, str):
        return frozenset({declared}) & ANY or ANY
    if isinstance(declared, list):
        return frozenset(str(t) for t in declared) & ANY or ANY
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return frozenset(_type_of(v) for v in values) or ANY
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list):
            parts = [_types(s, root, depth + 1) for s in schema[key]]
            joined = frozenset.intersection(*parts) if key == "allOf" else frozenset.union(*parts)
            return joined or ANY
    if "properties" in schema:
        return frozenset({"object"})
    return frozenset({"array"}) if "items" in schema else ANY


def _type_of(value: Any) -> str:
    return next((name for kind, name in _OF_VALUE if isinstance(value, kind)), "null")


def as_json(text: str, types: frozenset[str]) -> str:
    """A parameter's text as JSON of a declared type; as a JSON string where it does not fit one."""
    stripped = text.strip()
    candidate = {"true": "true", "false": "false", "none": "null", "null": "null"}.get(stripped.lower(), stripped)
    try:
        value = json.loads(candidate, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)
    kind = _type_of(value)
    fits = kind in types or (kind == "integer" and "number" in types)
    fits = fits or (kind == "number" and "integer" in types and float(value).is_integer())
    return candidate if fits and kind != "string" else json.dumps(text, ensure_ascii=False)


def _refuse(constant: str) -> Any:
    raise ValueError(constant)
