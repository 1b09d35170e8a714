"""CORS as ASGI middleware, outside the key check: a browser's preflight carries no key.

Default: with API keys every origin may ask (a page without the key gets nothing); without keys only pages of this machine,
since any web page could otherwise drive a local server. Credentials (cookies) are never allowed: sgl uses none.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .settings import HttpSettings

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Cors:
    """Answers preflights and adds ``Access-Control-Allow-Origin`` to every other answer, streams included."""

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._origins = settings.cors_origins
        self._keyed = bool(settings.api_keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is None:
            await self._app(scope, receive, send)
            return
        allowed = self.allowed(origin)
        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await self._preflight(headers, allowed)(scope, receive, send)
            return

        async def send_with_origin(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                out.add_vary_header("Origin")
                if allowed:
                    out["access-control-allow-origin"] = allowed
                    out["access-control-expose-headers"] = "x-request-id"
            await send(message)

        await self._app(scope, receive, send_with_origin)

    def allowed(self, origin: str) -> str:
        """The value of ``Access-Control-Allow-Origin`` for an origin; empty when it may not ask."""
        if self._origins is not None:
            if "*" in self._origins:
                return "*"
            return origin if origin in self._origins else ""
        if self._keyed:
            return "*"
        try:
            host = urlsplit(origin).hostname
        except ValueError:
            return ""
        return origin if host in _LOOPBACK else ""

    @staticmethod
    def _preflight(headers: Headers, allowed: str) -> Response:
        out = {"vary": "Origin"}
        if allowed:
            out["access-control-allow-origin"] = allowed
            out["access-control-allow-methods"] = "GET, POST, PUT, DELETE, OPTIONS"
            asked = headers.get("access-control-request-headers")
            out["access-control-allow-headers"] = asked or "authorization, content-type, x-api-key"
            out["access-control-max-age"] = "600"
        return Response(status_code=204, headers=out)
