"""The routes of Ollama's API."""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sgl_core import __version__
from sgl_core.serve.core.errors import RequestError, refuse
from sgl_core.serve.core.service import Service
from sgl_core.serve.http.body import read_model
from sgl_core.serve.http.errors import endpoint, json_response
from sgl_core.serve.http.sse import LineStream, joined, whole_answer
from sgl_core.serve.openai import embeddings
from sgl_core.serve.openai.chat import Chat
from sgl_core.serve.openai.completions import Completion

from . import models
from .building import Builder, Lines, nanoseconds, now
from .protocol import ChatBody, EmbedBody, GenerateBody, ShowBody
from .translate import chat_job, generate_job


async def chat(request: Request) -> Response:
    body = await read_model(request, ChatBody)
    service = _service(request)
    service.front.check_open()
    if body.messages == [] or body.messages is None:
        return json_response(_loaded(service, body.keep_alive, {"message": {"role": "assistant", "content": ""}}))
    job = await chat_job(body, service)
    return await _answer(request, service, job, chat=True, stream=body.stream is not False)


async def generate(request: Request) -> Response:
    body = await read_model(request, GenerateBody)
    service = _service(request)
    service.front.check_open()
    if not body.prompt:
        return json_response(_loaded(service, body.keep_alive, {"response": ""}))
    job = await generate_job(body, service)
    return await _answer(request, service, job, chat=False, stream=body.stream is not False)


async def _answer(request: Request, service: Service, job: Chat | Completion, *, chat: bool, stream: bool) -> Response:
    if isinstance(job, Chat):
        requests, top, one_call = [job.request], job.top_logprobs, job.one_call
    else:
        requests, top, one_call = job.requests, job.logprobs, False
    run = service.front.submit(requests)
    builder = Builder(service, service.card.name, chat=chat, top=top, one_call=one_call)
    if stream:
        return LineStream(run, Lines(builder), float(request.app.state.settings.header_seconds))
    await joined(request, run, builder.take)
    return json_response(builder.answer)


def _loaded(service: Service, keep_alive: str | float | None, content: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request without a prompt, by which clients load a model (or unload it: it stays loaded here)."""
    reason = "unload" if keep_alive in (0, "0", "0s", "0m") else "load"
    return {"model": service.card.name, "created_at": now(), **content, "done": True, "done_reason": reason}


async def embed(request: Request) -> Response:
    body = await read_model(request, EmbedBody)
    service = _service(request)
    service.front.check_open()
    begun = time.monotonic()
    old = request.url.path.endswith("/embeddings")
    given, field = (body.prompt, "prompt") if old else (body.input, "input")
    cut = None if body.truncate is False else -1
    asked = embeddings.EmbeddingRequest(input=given, dimensions=body.dimensions, truncate_prompt_tokens=cut)
    try:
        run = service.front.submit(await embeddings.translate(asked, service))
    except RequestError as error:
        raise _named(error, field) from None
    data = embeddings.plain(asked, service, await whole_answer(request, run))
    vectors = [row["embedding"] for row in data["data"]]
    if old:
        return json_response({"embedding": vectors[0]})
    return json_response(
        {
            "model": service.card.name,
            "embeddings": vectors,
            "total_duration": nanoseconds(time.monotonic() - begun),
            "load_duration": 0,
            "prompt_eval_count": data["usage"]["prompt_tokens"],
        }
    )


def _named(error: RequestError, field: str) -> RequestError:
    message = error.message.replace("input", field, 1) if error.message.startswith("input") else error.message
    return RequestError(message, param=field, status=error.status, code=error.code)


async def tags(request: Request) -> Response:
    return json_response({"models": [models.entry(_service(request))]})


async def running(request: Request) -> Response:
    service = _service(request)
    return json_response({"models": [models.loaded(service)] if service.front.state == "ready" else []})


async def show(request: Request) -> Response:
    body = await read_model(request, ShowBody)
    name = body.model or body.name
    if not name:
        raise refuse("model", "is required")
    return json_response(models.shown(_service(request), name))


async def version(request: Request) -> Response:
    return json_response({"version": __version__})


async def unserved(request: Request) -> Response:
    raise RequestError(
        f"{request.url.path} is not served: the operator chooses the model when the server starts (sgl serve MODEL)",
        status=501,
        code="not_implemented",
    )


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def routes() -> list[Route]:
    return [
        Route("/api/chat", endpoint(chat), methods=["POST"]),
        Route("/api/generate", endpoint(generate), methods=["POST"]),
        Route("/api/embed", endpoint(embed), methods=["POST"]),
        Route("/api/embeddings", endpoint(embed), methods=["POST"]),
        Route("/api/tags", endpoint(tags), methods=["GET"]),
        Route("/api/ps", endpoint(running), methods=["GET"]),
        Route("/api/show", endpoint(show), methods=["POST"]),
        Route("/api/version", endpoint(version), methods=["GET"]),
        *(Route(f"/api/{name}", endpoint(unserved), methods=["POST"]) for name in ("pull", "push", "create", "copy")),
        Route("/api/delete", endpoint(unserved), methods=["DELETE"]),
    ]
