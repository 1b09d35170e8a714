"""Routes of sessions: open, close, and /generate within one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sgl_core.serve.core.errors import refuse
from sgl_core.serve.core.service import Service
from sgl_core.serve.http.body import parse_model, read_model
from sgl_core.serve.http.errors import endpoint, json_response
from sgl_core.serve.http.sse import EventStream, whole_answer

from . import generate
from .protocol import GenerateRequest
from .sessions import CloseBody, OpenBody, SessionParams, Sessions, SessionStream


def sessions_of(request: Request) -> Sessions:
    sessions: Sessions = request.app.state.sessions
    return sessions


async def open_session(request: Request) -> Response:
    return json_response(sessions_of(request).open(await read_model(request, OpenBody)))


async def close_session(request: Request) -> Response:
    body = await read_model(request, CloseBody)
    sessions_of(request).close(body.session_id)
    return json_response({"session_id": body.session_id, "closed": True})


async def generate_in_session(request: Request, body: GenerateRequest, given: Mapping[str, Any]) -> Response:
    """One turn of a session."""
    service: Service = request.app.state.service
    params = parse_model(dict(given), SessionParams, "session_params")
    sessions = sessions_of(request)
    parent = await sessions.extend(body, params, service)
    job = await generate.translate(body, service)
    if job.several:
        raise refuse("n", "a session takes one choice at a time")
    run = service.front.submit(job.requests)
    if body.stream:
        writer = SessionStream(job, sessions, params.id, parent)
        return EventStream(run, writer, float(request.app.state.settings.header_seconds))
    answers = await whole_answer(request, run)
    sessions.record(params.id, job, answers, parent)
    return json_response(generate.plain(job, answers))


def routes() -> list[Route]:
    return [
        Route("/open_session", endpoint(open_session), methods=["GET", "POST"]),
        Route("/close_session", endpoint(close_session), methods=["GET", "POST"]),
    ]
