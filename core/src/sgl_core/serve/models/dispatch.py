"""Passes a request on to the application of the model that it names, which is loaded first where it is not."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sgl_core.serve.core.errors import RequestError, refuse
from sgl_core.serve.http.auth import ADMIN_PATHS
from sgl_core.serve.http.body import read_bytes
from sgl_core.serve.http.errors import ClientGone, error_response, route_path

from .pool import ModelPool

log = logging.getLogger("sgl.models")

MODEL_KEY = "sgl_model"
"""Where the scope's state names the chosen model, for counts."""


class _Named(msgspec.Struct):
    """What is read of a body here; Ollama's older clients say name."""

    model: Any = None
    name: Any = None


class Dispatch:
    """The application behind the routes that the server answers itself. Requests that name no model go to the first one."""

    def __init__(self, pool: ModelPool, max_body_bytes: int) -> None:
        self._pool = pool
        self._most = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} connections are not served")
        path = route_path(scope)
        try:
            await self._pass_on(path, scope, receive, send)
        except RequestError as error:
            await error_response(error, path)(scope, receive, send)
        except ClientGone:
            return

    async def _pass_on(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        name = request.query_params.get("model", "")
        if scope["method"] in ("POST", "PUT", "PATCH"):
            body = await read_bytes(request, self._most)
            receive = replayed(body, receive)
            name = name or named_in(body, path)
        pool = self._pool
        loaded = pool.loaded()
        if scope["method"] in ("GET", "HEAD", "DELETE", "OPTIONS") or path in ADMIN_PATHS:
            # Looking and administering load nothing.
            if not name and len(loaded) > 1 and path in ADMIN_PATHS:
                raise refuse("model", f"is required: {', '.join(slot.name for slot in loaded)} are loaded")
            slot = pool.slot(name) if name else loaded[0] if loaded else pool.default
            if not slot.usable:
                raise RequestError(f"model {slot.name!r} is not loaded", status=503, code="not_loaded")
        else:
            slot = pool.slot(name) if name else pool.default
        scope.setdefault("state", {})[MODEL_KEY] = slot.name
        async with pool.lease(slot.name) as leased:
            app: ASGIApp | None = leased.app
            assert app is not None
            await app(scope, receive, send)


def named_in(body: bytes, path: str) -> str:
    """The model that a body names; empty where it names none. Raises RequestError for what is no JSON object."""
    if not body.strip():
        return ""
    try:
        found = msgspec.json.decode(body, type=_Named)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"the body is not a JSON object: {error}", code="invalid_json") from None
    name = found.model
    if name is None and path.startswith("/api/"):
        name = found.name
    if name is None:
        return ""
    if not isinstance(name, str) or not name:
        raise refuse("model", "must be the name of a model")
    return name


def replayed(body: bytes, receive: Receive) -> Receive:
    """A channel that gives the body again, then what comes after it."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
