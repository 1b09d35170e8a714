"""The routes that generate: chat, completions, native generate, embeddings."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sgl_core.serve.core.service import Service
from sgl_core.serve.http.body import read_model
from sgl_core.serve.http.errors import endpoint, json_response
from sgl_core.serve.http.sse import EventStream, whole_answer
from sgl_core.serve.native import generate
from sgl_core.serve.native.protocol import GenerateRequest
from sgl_core.serve.native.session_routes import generate_in_session
from sgl_core.serve.native.sessions import session_params
from sgl_core.serve.openai import chat, chat_answer, completions, embeddings
from sgl_core.serve.openai.chat_protocol import ChatRequest
from sgl_core.serve.openai.completion_protocol import CompletionRequest


def ready_service(request: Request) -> Service:
    """The service of the application. Raises RequestError (503) where it takes no requests now."""
    service: Service = request.app.state.service
    service.front.check_open()
    return service


def _grace(request: Request) -> float:
    return float(request.app.state.settings.header_seconds)


async def chat_completions(request: Request) -> Response:
    body = await read_model(request, ChatRequest)
    service = ready_service(request)
    job = await chat.translate(body, service)
    run = service.front.submit([job.request])
    if body.stream:
        return EventStream(run, chat_answer.ChatStream(job), _grace(request))
    return json_response(chat_answer.plain(job, await whole_answer(request, run)))


async def text_completions(request: Request) -> Response:
    body = await read_model(request, CompletionRequest)
    service = ready_service(request)
    job = await completions.translate(body, service)
    run = service.front.submit(job.requests)
    if body.stream:
        return EventStream(run, completions.CompletionStream(job), _grace(request))
    return json_response(completions.plain(job, await whole_answer(request, run)))


async def native_generate(request: Request) -> Response:
    body = await read_model(request, GenerateRequest)
    service = ready_service(request)
    session = session_params(body)
    if session is not None:
        return await generate_in_session(request, body, session)
    job = await generate.translate(body, service)
    run = service.front.submit(job.requests)
    if body.stream:
        return EventStream(run, generate.GenerateStream(job), _grace(request))
    return json_response(generate.plain(job, await whole_answer(request, run)))


async def text_embeddings(request: Request) -> Response:
    body = await read_model(request, embeddings.EmbeddingRequest)
    service = ready_service(request)
    run = service.front.submit(await embeddings.translate(body, service))
    return json_response(embeddings.plain(body, service, await whole_answer(request, run)))


def routes() -> list[Route]:
    return [
        Route("/v1/chat/completions", endpoint(chat_completions), methods=["POST"]),
        Route("/invocations", endpoint(chat_completions), methods=["POST"]),
        Route("/v1/completions", endpoint(text_completions), methods=["POST"]),
        Route("/v1/embeddings", endpoint(text_embeddings), methods=["POST"]),
        Route("/generate", endpoint(native_generate), methods=["POST", "PUT"]),
    ]
