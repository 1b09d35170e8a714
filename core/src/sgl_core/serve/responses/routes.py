"""The routes of the Responses API."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sgl_core.serve.core.errors import RequestError, refuse
from sgl_core.serve.core.service import Service
from sgl_core.serve.http.body import read_model
from sgl_core.serve.http.errors import ClientGone, endpoint, json_response
from sgl_core.serve.http.sse import joined

from .building import Builder
from .protocol import ResponseRequest
from .store import Record, ResponseStore
from .streams import FollowStream, RunStream, in_background, settle
from .translate import translate


def store_of(request: Request) -> ResponseStore:
    store: ResponseStore = request.app.state.responses
    return store


async def create(request: Request) -> Response:
    body = await read_model(request, ResponseRequest)
    service: Service = request.app.state.service
    service.front.check_open()
    store = store_of(request)
    job = await translate(body, service, store)
    run = service.front.submit([job.chat.request])
    record = job.record
    if job.stored:
        store.put(record)
    if body.background:
        record.task = asyncio.create_task(in_background(run, job, store))
        return FollowStream(record, -1) if body.stream else json_response(record.response)
    if body.stream:
        return RunStream(run, job, store, float(request.app.state.settings.header_seconds))
    builder = Builder(job.chat, record.response)
    try:
        await joined(request, run, builder.take)
    except (RequestError, ClientGone) as error:
        if isinstance(error, RequestError):
            builder.fail(error)
        raise
    finally:
        builder.cancel()
        settle(record, store)
    return json_response(record.response)


async def input_tokens(request: Request) -> Response:
    """How many tokens the prompt would have."""
    body = await read_model(request, ResponseRequest)
    job = await translate(body, request.app.state.service, store_of(request))
    return json_response({"object": "response.input_tokens", "input_tokens": len(job.chat.request.input_ids)})


async def retrieve(request: Request) -> Response:
    record = _record(request)
    if request.query_params.get("stream") not in ("true", "True", "1"):
        return json_response(record.response)
    if not record.background:
        raise refuse("stream", "only responses made with background: true can be streamed again")
    return FollowStream(record, _number(request, "starting_after", -1, 0, 1 << 31))


async def cancel(request: Request) -> Response:
    """End a response that still runs. One that has ended stays as it is where it was cancelled, and is a 400 otherwise."""
    record = _record(request)
    service: Service = request.app.state.service
    if not record.running and record.response["status"] != "cancelled":
        raise refuse("response_id", f"the response has ended: its status is {record.response['status']}")
    if record.running:
        service.front.abort(record.response["id"])
        while record.running:
            record.changed.clear()
            await record.changed.wait()
    return json_response(record.response)


async def delete(request: Request) -> Response:
    store = store_of(request)
    record = store.delete(request.path_params["response_id"])
    if record.running:
        service: Service = request.app.state.service
        service.front.abort(record.response["id"])
    return json_response({"id": record.response["id"], "object": "response", "deleted": True})


async def items(request: Request) -> Response:
    """The input items of a response, newest first unless asked otherwise, a page at a time."""
    record = _record(request)
    order = request.query_params.get("order", "desc")
    if order not in ("asc", "desc"):
        raise refuse("order", f"must be asc or desc, not {order!r}")
    found = list(record.context) if order == "asc" else list(reversed(record.context))
    after = request.query_params.get("after")
    if after:
        at = next((at for at, item in enumerate(found) if item["id"] == after), None)
        if at is None:
            raise refuse("after", f"there is no item {after!r}")
        found = found[at + 1 :]
    limit = _number(request, "limit", 20, 1, 100)
    page = found[:limit]
    ends: dict[str, Any] = {
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(found) > limit,
    }
    return json_response({"object": "list", "data": [_shown(item) for item in page], **ends})


def _shown(item: dict[str, Any]) -> dict[str, Any]:
    return {"status": "completed", **item}


def _record(request: Request) -> Record:
    return store_of(request).get(request.path_params["response_id"])


def _number(request: Request, name: str, default: int, low: int, high: int) -> int:
    given = request.query_params.get(name)
    if given is None:
        return default
    if not given.isdecimal() or len(given) > 12 or not low <= int(given) <= high:
        raise refuse(name, f"must be an integer from {low} to {high}")
    return int(given)


def routes() -> list[Route]:
    one = "/v1/responses/{response_id}"
    return [
        Route("/v1/responses", endpoint(create), methods=["POST"]),
        Route("/v1/responses/input_tokens", endpoint(input_tokens), methods=["POST"]),
        Route(one, endpoint(retrieve), methods=["GET"]),
        Route(one, endpoint(delete), methods=["DELETE"]),
        Route(f"{one}/cancel", endpoint(cancel), methods=["POST"]),
        Route(f"{one}/input_items", endpoint(items), methods=["GET"]),
    ]
