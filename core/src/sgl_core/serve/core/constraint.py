"""Constraints on the output: the ways clients ask for JSON, patterns and grammars, made one GrammarRequest or refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sgl_core.api.sampling import GrammarRequest

from .errors import RequestError, refuse, unsupported
from .request import ModelCard


def constraint(
    card: ModelCard,
    *,
    response_format: Mapping[str, Any] | None = None,
    regex: str | None = None,
    ebnf: str | None = None,
    json_schema: Any = None,
    structural_tag: Any = None,
) -> GrammarRequest | None:
    """The one constraint of a request, or None. Raises RequestError naming the field: two of them, or one that is not served."""
    found: dict[str, GrammarRequest] = {}
    if response_format is not None:
        made = _from_format(response_format)
        if made is not None:
            found["response_format"] = made
    if regex is not None:
        found["regex"] = GrammarRequest(kind="regex", text=_text(regex, "regex"))
    if ebnf is not None:
        found["ebnf"] = GrammarRequest(kind="ebnf", text=_text(ebnf, "ebnf"))
    if json_schema is not None:
        found["json_schema"] = GrammarRequest(kind="json_schema", text=_schema(json_schema, "json_schema"))
    if structural_tag is not None:
        found["structural_tag"] = GrammarRequest(kind="structural_tag", text=_schema(structural_tag, "structural_tag"))
    if not found:
        return None
    if len(found) > 1:
        names = " and ".join(found)
        raise RequestError(f"only one of {names} can be given", param=list(found)[1], code="invalid_value")
    name, request = next(iter(found.items()))
    if request.kind not in card.grammar_kinds:
        if not card.grammar_kinds:
            raise unsupported(
                name,
                f"the server runs with grammar backend {card.grammar_backend!r}; "
                "start it with --grammar-backend and an installed backend (sgl plugin list grammars)",
            )
        raise unsupported(name, f"grammar backend {card.grammar_backend!r} does not serve {request.kind}")
    return request


def _from_format(value: Mapping[str, Any]) -> GrammarRequest | None:
    kind = value.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return GrammarRequest(kind="json_object")
    if kind == "json_schema":
        inner = value.get("json_schema")
        if not isinstance(inner, Mapping):
            raise refuse("response_format.json_schema", "must be an object with a schema")
        schema = inner.get("schema", {})
        strict = inner.get("strict")
        if strict is not None and not isinstance(strict, bool):
            raise refuse("response_format.json_schema.strict", "must be true or false")
        text = _schema(schema, "response_format.json_schema.schema")
        return GrammarRequest(kind="json_schema", text=text, strict=strict is not False)
    if kind == "structural_tag":
        return GrammarRequest(kind="structural_tag", text=json.dumps(value))
    raise refuse("response_format.type", f"must be text, json_object, json_schema or structural_tag, not {kind!r}")


def _schema(value: Any, name: str) -> str:
    """JSON text of a schema that came as an object or as text; the order of its keys is kept."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except (ValueError, RecursionError) as error:
            raise refuse(name, f"is not JSON: {error}") from None
        return value
    if isinstance(value, Mapping | bool):
        return json.dumps(value)
    raise refuse(name, "must be a JSON schema")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise refuse(name, "must be a text that is not empty")
    return value
