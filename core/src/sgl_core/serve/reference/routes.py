"""/openapi.json, and /docs where the operator wants the page."""

from __future__ import annotations

import html

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.http.errors import endpoint, json_response

from .openapi import document
from .table import ROUTES

_STYLE = "body{font:15px system-ui;margin:2rem auto;max-width:60rem}td{padding:.2rem .8rem;vertical-align:top}"


async def openapi(request: Request) -> Response:
    state = request.app.state
    if getattr(state, "openapi", None) is None:
        state.openapi = document()
    return json_response(state.openapi)


async def page(request: Request) -> Response:
    if not request.app.state.settings.docs_page:
        raise RequestError("the page of all routes is off (--docs-page)", status=404, code="docs_off")
    parts = [f"<!doctype html><meta charset=utf-8><title>sgl</title><style>{_STYLE}</style><h1>Routes</h1>"]
    for family in dict.fromkeys(entry.family for entry in ROUTES):
        parts.append(f"<h2>{html.escape(family)}</h2><table>")
        for entry in (entry for entry in ROUTES if entry.family == family):
            note = f" <i>501: {html.escape(entry.why)}</i>" if entry.why else ""
            methods = html.escape(" ".join(entry.methods))
            path, summary = html.escape(entry.path), html.escape(entry.summary)
            parts.append(f"<tr><td>{methods}<td><code>{path}</code><td>{summary}{note}")
        parts.append("</table>")
    return HTMLResponse("".join(parts))


def routes() -> list[Route]:
    return [
        Route("/openapi.json", endpoint(openapi), methods=["GET"]),
        Route("/docs", endpoint(page), methods=["GET"]),
    ]
