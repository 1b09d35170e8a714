"""JSON schemas of fields that the bodies' models leave open, because the request core checks them for every API alike."""

from __future__ import annotations

from typing import Any

from sgl_core.serve.core.validate import (
    MAX_BIASES,
    MAX_PATTERNS,
    MAX_STOP_CHARS,
    MAX_STOP_TOKENS,
    MAX_STOPS,
    NUMBERS,
    Range,
)

Schemas = list[dict[str, Any]]
_WHOLE = {"type": "integer", "minimum": 0}
_FILLED = {"type": "string", "pattern": r"\S"}
_STOP = {"type": "string", "minLength": 1, "maxLength": MAX_STOP_CHARS}


def _list(items: dict[str, Any], least: int = 1, most: int | None = None) -> dict[str, Any]:
    out = {"type": "array", "items": items, "minItems": least}
    return out if most is None else {**out, "maxItems": most}


def _number(allowed: Range) -> dict[str, Any]:
    low = "exclusiveMinimum" if allowed.above else "minimum"
    return {"type": "number", low: allowed.low, "maximum": allowed.high}


_PROMPT: Schemas = [_FILLED, _list(_FILLED), _list(_WHOLE), _list(_list(_WHOLE))]
_STOPS: Schemas = [_STOP, _list(_STOP, 0, MAX_STOPS)]
_OBJECT = {"type": "object"}

CORE_FIELDS: dict[str, Schemas] = {
    **{name: [_number(allowed)] for name, allowed in NUMBERS.items()},
    "top_k": [{"type": "integer", "minimum": -1}],
    "seed": [{"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}],
    "max_tokens": [_WHOLE],
    "max_completion_tokens": [{"type": "integer", "minimum": 1}],
    "max_output_tokens": [{"type": "integer", "minimum": 1}],
    "max_new_tokens": [_WHOLE],
    "min_tokens": [_WHOLE],
    "stop": _STOPS,
    "stop_sequences": _STOPS,
    "stop_regex": [{"type": "string"}, _list({"type": "string"}, 0, MAX_PATTERNS)],
    "stop_token_ids": [_list(_WHOLE, 0, MAX_STOP_TOKENS)],
    "logit_bias": [
        {
            **_OBJECT,
            "propertyNames": {"pattern": "^[0-9]+$"},
            "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
            "maxProperties": MAX_BIASES,
        }
    ],
    "prompt": _PROMPT,
    "input": _PROMPT,
    "text": [_FILLED, _list(_FILLED)],
    "input_ids": [_list(_WHOLE), _list(_list(_WHOLE))],
    "tokens": [_list(_WHOLE, 0), _list(_list(_WHOLE, 0))],
    "token_ids_logprob": [_list(_WHOLE), _list(_list(_WHOLE))],
    "json_schema": [_OBJECT, {"type": "string"}],
    "structural_tag": [_OBJECT, {"type": "string"}],
}
"""By name, for fields that a model leaves open."""


BOUNDS: dict[str, dict[str, int]] = {
    "n": {"minimum": 1, "maximum": 128},
    "best_of": {"minimum": 1, "maximum": 128},
    "logprobs": {"minimum": 0, "maximum": 5},
    "top_logprobs": {"minimum": 0, "maximum": 20},
    "stream_interval": {"minimum": 1, "maximum": 4096},
    "dimensions": {"minimum": 1},
    "top_n": {"minimum": 1},
}
"""By name, for fields that are declared as integers."""


def _message(roles: list[str], content: dict[str, Any]) -> dict[str, Any]:
    properties = {"role": {"enum": roles}, "content": content}
    return {**_OBJECT, "properties": properties, "required": ["role", "content"]}


def _part(kind: str) -> dict[str, Any]:
    return {
        **_OBJECT,
        "properties": {"type": {"const": kind}, "text": {"type": "string"}},
        "required": ["type", "text"],
    }


def _content(*kinds: str) -> dict[str, Any]:
    return {"anyOf": [{"type": "string"}, *(_list(_part(kind)) for kind in kinds)]}


_NAME = {"type": "string", "minLength": 1}
_FUNCTION = {
    **_OBJECT,
    "properties": {"name": _NAME, "description": {"type": "string"}, "parameters": _OBJECT},
    "required": ["name"],
}
_TOOL = {
    **_OBJECT,
    "properties": {"type": {"const": "function"}, "function": _FUNCTION},
    "required": ["type", "function"],
}
_CHAT = [_list(_message(["system", "user", "assistant", "tool", "developer"], _content("text")))]
_RESPONSE_FORMAT = [
    {**_OBJECT, "properties": {"type": {"enum": ["text", "json_object"]}}, "required": ["type"]},
    {
        **_OBJECT,
        "properties": {
            "type": {"const": "json_schema"},
            "json_schema": {**_OBJECT, "properties": {"name": _NAME, "schema": _OBJECT}, "required": ["schema"]},
        },
        "required": ["type", "json_schema"],
    },
]

OPEN_FIELDS: dict[tuple[str, str], Schemas] = {
    ("ChatRequest", "messages"): _CHAT,
    ("ChatRequest", "tools"): [_list(_TOOL, 0)],
    ("ChatRequest", "response_format"): _RESPONSE_FORMAT,
    ("CompletionRequest", "response_format"): _RESPONSE_FORMAT,
    ("ChatBody", "messages"): [_list(_message(["system", "user", "assistant", "tool"], {"type": "string"}))],
    ("ChatBody", "tools"): [_list(_TOOL, 0)],
    ("MessagesRequest", "messages"): [_list(_message(["user", "assistant"], _content("text")))],
    ("CountTokensRequest", "messages"): [_list(_message(["user", "assistant"], _content("text")))],
    ("ResponseRequest", "input"): [
        _FILLED,
        _list(_message(["system", "user", "assistant", "developer"], _content("input_text"))),
    ],
}
"""By model and field, for fields whose declared type is looser than what is read of them."""
