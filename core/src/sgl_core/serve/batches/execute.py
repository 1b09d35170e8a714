"""One line of a batch: served by the code of its route, without HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from sgl_core.serve.core.answer import Answer, collect
from sgl_core.serve.core.errors import refuse
from sgl_core.serve.core.events import Failed
from sgl_core.serve.core.request import TextRequest
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.validate import check_texts
from sgl_core.serve.http.body import parse_model
from sgl_core.serve.http.sse import failure
from sgl_core.serve.openai import chat, chat_answer, completions, embeddings
from sgl_core.serve.openai.chat_protocol import ChatRequest
from sgl_core.serve.openai.completion_protocol import CompletionRequest
from sgl_core.serve.responses.building import Builder
from sgl_core.serve.responses.protocol import ResponseRequest
from sgl_core.serve.responses.store import ResponseStore
from sgl_core.serve.responses.translate import translate as translate_response

LOW = 1_000_000
"""The priority of a batch's requests, where the server schedules by priority; its sign is the least important end."""

Execute = Callable[[Service, ResponseStore, dict[str, Any]], Awaitable[dict[str, Any]]]


async def _chat(service: Service, store: ResponseStore, body: dict[str, Any]) -> dict[str, Any]:
    job = await chat.translate(parse_model(body, ChatRequest), service)
    return chat_answer.plain(job, await _answers(service, [job.request]))


async def _completions(service: Service, store: ResponseStore, body: dict[str, Any]) -> dict[str, Any]:
    job = await completions.translate(parse_model(body, CompletionRequest), service)
    return completions.plain(job, await _answers(service, job.requests))


async def _embeddings(service: Service, store: ResponseStore, body: dict[str, Any]) -> dict[str, Any]:
    asked = parse_model(body, embeddings.EmbeddingRequest)
    return embeddings.plain(asked, service, await _answers(service, await embeddings.translate(asked, service)))


async def _responses(service: Service, store: ResponseStore, body: dict[str, Any]) -> dict[str, Any]:
    asked = parse_model({**body, "store": False}, ResponseRequest)
    if asked.background:
        raise refuse("background", "a batch is in the background already")
    job = await translate_response(asked, service, store)
    _demote(service, [job.chat.request])
    builder = Builder(job.chat, job.record.response)
    async with service.front.submit([job.chat.request]) as run:
        async for batch in run.batches():
            for entry in batch:
                if isinstance(entry, Failed):
                    raise failure(entry)
            builder.take(batch)
    return builder.response


ENDPOINTS: Mapping[str, Execute] = {
    "/v1/chat/completions": _chat,
    "/v1/completions": _completions,
    "/v1/embeddings": _embeddings,
    "/v1/responses": _responses,
}


async def execute(endpoint: str, service: Service, store: ResponseStore, body: dict[str, Any]) -> dict[str, Any]:
    """The answer's body. Raises RequestError."""
    check_texts(body, "")
    if body.get("stream"):
        raise refuse("stream", "a batch's answers are not streamed")
    return await ENDPOINTS[endpoint](service, store, body)


async def _answers(service: Service, requests: Sequence[TextRequest]) -> list[Answer]:
    _demote(service, requests)
    async with service.front.submit(requests) as run:
        return await collect(run)


def _demote(service: Service, requests: Sequence[TextRequest]) -> None:
    """Put requests behind everybody else's, where the scheduler looks at priorities; elsewhere the runner holds back."""
    if service.info.get("enable_priority_scheduling"):
        low_first = bool(service.info.get("schedule_low_priority_values_first"))
        for request in requests:
            request.priority = LOW if low_first else -LOW
