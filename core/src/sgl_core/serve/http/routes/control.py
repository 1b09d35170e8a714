"""Routes that act on the running server: flush the prefix cache, abort requests."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sgl_core.serve.core.errors import RequestError, refuse
from sgl_core.serve.core.service import Service
from sgl_core.serve.http.body import read_json
from sgl_core.serve.http.errors import endpoint, json_response


async def flush_cache(request: Request) -> Response:
    """Empty the prefix cache. 400 while requests run: their pages are in use."""
    service: Service = request.app.state.service
    if await service.front.control("flush_cache") is False:
        raise RequestError("the cache cannot be flushed while requests run", status=400, code="busy")
    return PlainTextResponse("Cache flushed.\n")


async def abort_request(request: Request) -> Response:
    """End one request by its id, or all; their clients get what there is."""
    service: Service = request.app.state.service
    body = await read_json(request, empty_ok=True)
    rid, everything = body.get("rid") or "", body.get("abort_all") or False
    if not isinstance(rid, str):
        raise refuse("rid", "must be a text")
    if not isinstance(everything, bool):
        raise refuse("abort_all", "must be true or false")
    if not rid and not everything:
        raise refuse("rid", "is required (or abort_all: true)")
    return json_response({"aborted": service.front.abort(rid, everything=everything)})


def routes() -> list[Route]:
    return [
        Route("/flush_cache", endpoint(flush_cache), methods=["GET", "POST"]),
        Route("/abort_request", endpoint(abort_request), methods=["POST"]),
    ]
