"""API keys as ASGI middleware: every route but health asks for one, routes that change the server for the administrator's."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from sgl_core.serve.core.errors import RequestError

from .errors import error_response, route_path
from .routes.unserved import MODELS, REFERENCE
from .settings import HttpSettings

OPEN_PATHS = frozenset({"/health", "/health_generate", "/ping"})
ADMIN_PATHS = frozenset(
    {
        "/flush_cache",
        "/abort_request",
        "/server_info",
        "/get_server_info",
        "/configure_logging",
        "/pause_generation",
        "/continue_generation",
        "/start_profile",
        "/stop_profile",
        "/get_weights_by_name",
        "/update_weights_from_disk",
        "/update_weight_version",
        "/release_memory_occupation",
        "/resume_memory_occupation",
        *MODELS,
        *REFERENCE,
    }
)
"""Routes that change the server or show its insides: the administrator's where there is an admin key."""


class Keys:
    """Passes a request on, or answers 401."""

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._admin = settings.admin_key
        self._keys = settings.api_keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            error = self._refusal(scope)
            if error is not None:
                await error_response(error, route_path(scope))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> RequestError | None:
        path = route_path(scope)
        if path in OPEN_PATHS:
            return None
        admin_only = path in ADMIN_PATHS and self._admin is not None
        allowed = [key for key in (self._admin, *(() if admin_only else self._keys)) if key]
        if not admin_only and not self._keys:
            return None
        given = given_key(Headers(scope=scope))
        if any(_same(given, key) for key in allowed):
            return None
        whose = "the administrator's key" if admin_only else "an API key"
        what = "the key is wrong" if given else f"this route needs {whose} (Authorization: Bearer KEY)"
        return RequestError(what, status=401, code="invalid_api_key" if given else "missing_api_key")


def given_key(headers: Headers) -> str:
    """The key a request carries: ``Authorization: Bearer``, or ``x-api-key`` as Anthropic's clients send it."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


def _same(given: str, key: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), key.encode())
