"""Error answers in the shape of the route's API, and the one wrapper that turns whatever a handler raises into one."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sgl_core.serve.core.errors import RequestError

from .error_forms import error_body, form_of

__all__ = [
    "ClientGone",
    "Handler",
    "endpoint",
    "error_body",
    "error_response",
    "http_exception",
    "json_response",
    "route_path",
]

log = logging.getLogger("sgl.http")

Handler = Callable[[Request], Awaitable[Response]]


class ClientGone(Exception):
    """The client closed its connection; nothing is left to answer."""


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Strict JSON: numbers that are not finite become null."""
    return Response(msgspec.json.encode(content), status, headers, media_type="application/json")


def route_path(scope: Mapping[str, Any]) -> str:
    """The path of a request without the prefix under which a proxy publishes the server."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"


def error_response(error: RequestError, path: str = "") -> Response:
    """The error with its status, in the form of the route's API; 503 and 429 tell the client when to try again."""
    headers = {"retry-after": "1"} if error.status in (429, 503) else {}
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    return json_response(form_of(path)(error), error.status, headers)


def endpoint(handler: Handler) -> Handler:
    """A handler that always answers: a RequestError in its shape, anything else as 500 without its words."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except RequestError as error:
            if error.status >= 500 and error.status != 503:  # 503 is a state, which the log tells once
                log.warning("%s %s: %d %s", request.method, request.url.path, error.status, error.message)
            return error_response(error, route_path(request.scope))
        except ClientGone:
            return Response(status_code=499)
        except Exception:
            log.exception("%s %s failed", request.method, request.url.path)
            failure = RequestError("internal error; the server's log has the details", status=500)
            return error_response(failure, route_path(request.scope))

    return answer


async def http_exception(request: Request, error: Exception) -> Response:
    """Starlette's own refusals (no such route, wrong method) in the same shape."""
    if not isinstance(error, HTTPException):
        raise error
    words = {404: f"there is no route {request.url.path}", 405: f"{request.url.path} does not take {request.method}"}
    refusal = RequestError(words.get(error.status_code, str(error.detail)), status=error.status_code)
    response = error_response(refusal, route_path(request.scope))
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response
