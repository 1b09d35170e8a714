"""Walks a JSON schema (draft 2020-12): every place where a schema stands, with its JSON pointer (RFC 6901)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

IN_MAP = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
IN_LIST = ("anyOf", "oneOf", "allOf", "prefixItems")
DIRECT = (
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
)


def step(pointer: str, *names: str | int) -> str:
    """The pointer one or more steps further down."""
    return pointer + "".join("/" + str(n).replace("~", "~0").replace("/", "~1") for n in names)


def subschemas(schema: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """The schema itself and all below it as (pointer, schema). Values of const, enum, default and examples are data, not schemas."""
    yield pointer, schema
    if not isinstance(schema, Mapping):
        return
    for key in IN_MAP:
        inner = schema.get(key)
        if isinstance(inner, Mapping):
            for name, value in inner.items():
                yield from subschemas(value, step(pointer, key, name))
    for key in IN_LIST:
        inner = schema.get(key)
        if isinstance(inner, list):
            for index, value in enumerate(inner):
                yield from subschemas(value, step(pointer, key, index))
    for key in DIRECT:
        if isinstance(schema.get(key), (Mapping, bool)):
            yield from subschemas(schema[key], step(pointer, key))


def find_keyword(schema: Any, keyword: str) -> str:
    """The pointer of the first use of a keyword; empty when it is not used."""
    for pointer, node in subschemas(schema):
        if isinstance(node, Mapping) and keyword in node:
            return step(pointer, keyword)
    return ""


def resolve(root: Any, reference: str) -> Any:
    """What a local reference (``#/...``) points to. Raises KeyError where nothing stands there."""
    if not reference.startswith("#"):
        raise KeyError(reference)
    node = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        try:
            node = node[int(name)] if isinstance(node, list) else node[name]
        except (LookupError, ValueError, TypeError):
            raise KeyError(reference) from None
    return node
