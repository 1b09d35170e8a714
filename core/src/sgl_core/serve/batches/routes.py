"""The routes of batches."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sgl_core.serve.core.errors import RequestError, refuse
from sgl_core.serve.files.pages import page
from sgl_core.serve.http.body import read_model
from sgl_core.serve.http.errors import endpoint, json_response
from sgl_core.serve.openai.fields import ApiModel

from .execute import ENDPOINTS
from .runner import BatchRunner


class BatchBody(ApiModel):
    """OpenAI's fields."""

    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, str] | None = None


def runner_of(request: Request) -> BatchRunner:
    """The server's batches. Raises RequestError (501) where it keeps no files."""
    runner: BatchRunner | None = request.app.state.batches
    if runner is None:
        raise RequestError("the server keeps no files (--file-storage-path)", status=501, code="not_implemented")
    runner.start()
    return runner


async def create(request: Request) -> Response:
    runner = runner_of(request)
    body = await read_model(request, BatchBody)
    runner.serving.check_open()
    if body.endpoint not in ENDPOINTS:
        raise refuse("endpoint", f"must be one of {', '.join(ENDPOINTS)}, not {body.endpoint!r}")
    if body.completion_window != "24h":
        raise refuse("completion_window", f"must be 24h, not {body.completion_window!r}")
    runner.files.get(body.input_file_id, "input_file_id")
    return _shown(await runner.create(body.endpoint, body.input_file_id, body.metadata))


async def listed(request: Request) -> Response:
    found = [_public(batch) for batch in runner_of(request).states.list()]
    return json_response(page(request, found, default=20, most=100))


async def retrieve(request: Request) -> Response:
    return _shown(runner_of(request).states.get(request.path_params["batch_id"]))


async def cancel(request: Request) -> Response:
    return _shown(runner_of(request).cancel(request.path_params["batch_id"]))


def _public(batch: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in batch.items() if key != "ends_as"}


def _shown(batch: dict[str, Any]) -> Response:
    return json_response(_public(batch))


def routes() -> list[Route]:
    return [
        Route("/v1/batches", endpoint(create), methods=["POST"]),
        Route("/v1/batches", endpoint(listed), methods=["GET"]),
        Route("/v1/batches/{batch_id}", endpoint(retrieve), methods=["GET"]),
        Route("/v1/batches/{batch_id}/cancel", endpoint(cancel), methods=["POST"]),
    ]
