"""The routes of Anthropic's API."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sgl_core.serve.core.service import Service
from sgl_core.serve.http.body import read_model
from sgl_core.serve.http.errors import endpoint, json_response
from sgl_core.serve.http.sse import EventStream, joined

from .building import Builder, MessageStream
from .protocol import CountTokensRequest, MessagesRequest
from .translate import count, translate


async def messages(request: Request) -> Response:
    body = await read_model(request, MessagesRequest)
    service: Service = request.app.state.service
    service.front.check_open()
    job = await translate(body, service)
    run = service.front.submit([job.request])
    builder = Builder(job)
    if body.stream:
        return EventStream(run, MessageStream(builder), float(request.app.state.settings.header_seconds))
    await joined(request, run, builder.take)
    return json_response(builder.message)


async def count_tokens(request: Request) -> Response:
    body = await read_model(request, CountTokensRequest)
    return json_response({"input_tokens": await count(body, request.app.state.service)})


def routes() -> list[Route]:
    return [
        Route("/v1/messages", endpoint(messages), methods=["POST"]),
        Route("/v1/messages/count_tokens", endpoint(count_tokens), methods=["POST"]),
    ]
