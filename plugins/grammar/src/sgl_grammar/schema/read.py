"""Reads a client's schema text and refuses what is not a schema, or is too large to compile in good time."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from sgl_core.api.grammar import GrammarError

from .walk import step, subschemas

MAX_BYTES = 256 * 1024
MAX_DEPTH = 64
MAX_SUBSCHEMAS = 10_000


def read_schema(text: str) -> Any:
    """The schema as an object, keys in the client's order. Raises :class:`GrammarError` with a JSON pointer."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise GrammarError(f"the schema is longer than {MAX_BYTES // 1024} KiB")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GrammarError(f"the schema is not JSON: {error}") from None
    if isinstance(schema, str):
        raise GrammarError("the schema is a JSON string; send the schema object itself")
    if not isinstance(schema, (dict, bool)):
        raise GrammarError(f"a schema is an object, true or false, not {type(schema).__name__}")
    _bounded(schema)
    _well_formed(schema)
    return schema


def _bounded(schema: Any) -> None:
    count = 0
    try:
        for pointer, _ in subschemas(schema):
            count += 1
            if pointer.count("/") > 2 * MAX_DEPTH:
                raise GrammarError(f"the schema nests deeper than {MAX_DEPTH} levels", pointer)
    except RecursionError:
        raise GrammarError(f"the schema nests deeper than {MAX_DEPTH} levels") from None
    if count > MAX_SUBSCHEMAS:
        raise GrammarError(f"the schema has more than {MAX_SUBSCHEMAS} subschemas")


def _well_formed(schema: Any) -> None:
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        pointer = step("", *error.absolute_path)
        raise GrammarError(f"not a valid JSON schema (draft 2020-12): {error.message}", pointer) from None
    for pointer, node in subschemas(schema):
        if isinstance(node, dict) and node.get("enum") == []:
            raise GrammarError("an empty enum allows no value", step(pointer, "enum"))
