"""The OpenAPI document of the served routes, made from the table of routes and the pydantic models of their bodies."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

from pydantic.json_schema import models_json_schema

from sgl_core import __version__

from .entry import RouteEntry
from .field_schemas import BOUNDS, CORE_FIELDS, OPEN_FIELDS
from .table import ROUTES

_PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
_ERRORS = {"Anthropic": "AnthropicError", "Ollama": "OllamaError"}
_STATUSES = {
    "400": "The request is refused; the message names the field.",
    "401": "The key is missing or wrong.",
    "404": "There is no such thing.",
    "409": "The server is busy with what stands against it.",
    "413": "The body is too large.",
    "429": "The server's queue is full.",
    "500": "A fault of the server.",
    "501": "This server cannot do it, with the reason.",
    "503": "The server is loading, shutting down or ill.",
    "504": "The worker did not answer in time.",
}
_TEXT = {"type": "string"}
_WHOLE_TEXTS = ("text/plain", "text/html", "application/octet-stream")


def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    models = sorted({entry.model for entry in ROUTES if entry.model is not None}, key=lambda model: model.__name__)
    _, schemas = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/components/schemas/{model}"
    )
    found: dict[str, Any] = schemas.get("$defs", {})
    for name, schema in found.items():
        _refine(name, schema)
    paths: dict[str, Any] = {}
    for entry in (entry for entry in ROUTES if not entry.why):
        path = _PARAMETER.sub(r"{\1}", entry.path)
        for method in entry.methods:
            paths.setdefault(path, {})[method.lower()] = _operation(entry, method)
    return {
        "openapi": "3.1.0",
        "info": {"title": "sgl", "version": __version__, "description": "An LLM serving engine."},
        "paths": paths,
        "components": {
            "schemas": {**found, **_error_schemas()},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
        "security": [{}, {"bearer": []}, {"key": []}],
    }


def _operation(entry: RouteEntry, method: str) -> dict[str, Any]:
    words = re.sub(r"\W+", "_", _PARAMETER.sub(r"by_\1", entry.path)).strip("_") or "root"
    out: dict[str, Any] = {
        "operationId": f"{method.lower()}_{words}",
        "tags": [entry.family],
        "summary": entry.summary,
        "responses": _responses(entry),
    }
    path = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in _PARAMETER.findall(entry.path)]
    query = [{"name": name, "in": "query", "required": False, "schema": _TEXT} for name in entry.query]
    if path or query:
        out["parameters"] = [*path, *query]
    if method in ("POST", "PUT"):
        body = _body(entry)
        if body is not None:
            out["requestBody"] = body
    if entry.who == "admin":
        out["description"] = "Asks for the administrator's key where the server has one."
    elif entry.who == "none":
        out["security"] = []
    return out


def _body(entry: RouteEntry) -> dict[str, Any] | None:
    if entry.form:
        properties = {"file": {"type": "string", "format": "binary"}, "purpose": _TEXT}
        schema: dict[str, Any] = {"type": "object", "properties": properties, "required": ["file", "purpose"]}
        return {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    if entry.model is None:
        return None
    schema = {"$ref": f"#/components/schemas/{entry.model.__name__}"}
    return {"required": not entry.body_optional, "content": {"application/json": {"schema": schema}}}


def _responses(entry: RouteEntry) -> dict[str, Any]:
    out: dict[str, Any] = {}
    content = {kind: {"schema": _TEXT if kind in _WHOLE_TEXTS else {}} for kind in entry.answers}
    out["200"] = {"description": "The answer.", **({"content": content} if content else {})}
    error = {"$ref": f"#/components/schemas/{_ERRORS.get(entry.family, 'Error')}"}
    for status, words in _STATUSES.items():
        out[status] = {"description": words, "content": {"application/json": {"schema": error}}}
    return out


def _refine(model: str, schema: dict[str, Any]) -> None:
    """Say what the models leave open because the core checks it: sampling values, prompts, messages, tools."""
    for name, value in schema.get("properties", {}).items():
        found = OPEN_FIELDS.get((model, name)) or (None if _typed(value) else CORE_FIELDS.get(name))
        if found is not None:
            value.pop("type", None)
            value.pop("items", None)
            value["anyOf"] = [*deepcopy(found), *([] if name in schema.get("required", ()) else [{"type": "null"}])]
        for kind in (value, *value.get("anyOf", ())):
            if kind.get("type") == "integer":
                kind.update(BOUNDS.get(name, {}))


def _typed(value: dict[str, Any]) -> bool:
    return "type" in value or "anyOf" in value or "$ref" in value


def _error_schemas() -> dict[str, Any]:
    nullable = {"type": ["string", "null"]}
    fields = {"message": _TEXT, "type": _TEXT, "param": nullable, "code": nullable}

    def wrapped(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
        return {"type": "object", "properties": properties, "required": required}

    return {
        "Error": wrapped({"error": wrapped(fields, list(fields))}, ["error"]),
        "AnthropicError": wrapped(
            {"type": {"const": "error"}, "error": wrapped({"type": _TEXT, "message": _TEXT}, ["type", "message"])},
            ["type", "error"],
        ),
        "OllamaError": wrapped({"error": _TEXT}, ["error"]),
    }
