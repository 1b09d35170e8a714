"""The shape of an error in each API: OpenAI's, Anthropic's on its routes, Ollama's on its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sgl_core.serve.core.errors import RequestError

ErrorForm = Callable[[RequestError], dict[str, Any]]

ANTHROPIC_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def error_body(error: RequestError) -> dict[str, Any]:
    """``{"error": {message, type, param, code}}``; ``object`` and ``status`` are what other servers add."""
    return {
        "error": {"message": error.message, "type": error.kind, "param": error.param, "code": error.code},
        "object": "error",
        "status": error.status,
    }


def anthropic_body(error: RequestError) -> dict[str, Any]:
    """``{"type": "error", "error": {type, message}}``."""
    kind = ANTHROPIC_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": error.message}}


def ollama_body(error: RequestError) -> dict[str, Any]:
    """``{"error": "..."}``."""
    return {"error": error.message}


def form_of(path: str) -> ErrorForm:
    """The form of the API that a path belongs to."""
    if path == "/v1/messages" or path.startswith("/v1/messages/"):
        return anthropic_body
    return ollama_body if path.startswith("/api/") else error_body
