"""The routes of a server of several models that concern all of them: lists, health, load and unload, metrics."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sgl_core import __version__
from sgl_core.serve.core.errors import RequestError, refuse
from sgl_core.serve.core.metrics import page
from sgl_core.serve.http.body import parse_model, read_json, read_model
from sgl_core.serve.http.errors import endpoint, json_response
from sgl_core.serve.http.routes.health import load_of
from sgl_core.serve.native.control_routes import LoggingBody, set_logging
from sgl_core.serve.ollama import models as ollama
from sgl_core.serve.openai.fields import ApiModel

from .pool import ModelPool
from .slot import Slot


class ModelBody(ApiModel):
    """``model``: which one."""

    model: str


def pool_of(request: Request) -> ModelPool:
    """The models of the server."""
    pool: ModelPool = request.app.state.pool
    return pool


async def about(request: Request) -> Response:
    pool = pool_of(request)
    return json_response({"name": "sgl", "version": __version__, "models": list(pool.slots)})


async def health(request: Request) -> Response:
    """200 where a request to any model would be served or loaded; 503 while the server shuts down or a loaded model hangs."""
    pool = pool_of(request)
    if pool.draining:
        raise RequestError("the server is shutting down", status=503, code="draining")
    for slot in pool.loaded():
        why = slot.service.front.unhealthy() if slot.service is not None else ""
        if why:
            raise RequestError(f"model {slot.name!r}: {why}", status=503, code="hung")
    return Response(status_code=200)


async def models(request: Request) -> Response:
    return json_response({"object": "list", "data": [slot.describe() for slot in pool_of(request).slots.values()]})


async def model(request: Request) -> Response:
    return json_response(pool_of(request).slot(request.path_params["name"]).describe())


async def load(request: Request) -> Response:
    """Load a model, which may unload others; answers once it serves."""
    body = await read_model(request, ModelBody)
    slot = await pool_of(request).load(body.model)
    return json_response({"success": True, "model": slot.describe()})


async def unload(request: Request) -> Response:
    """Unload a model once its requests have ended. The next request for it loads it again."""
    body = await read_model(request, ModelBody)
    slot = await pool_of(request).unload(body.model)
    return json_response({"success": True, "model": slot.describe()})


async def metrics(request: Request) -> Response:
    """The Prometheus page of all models, loaded or not."""
    pool = pool_of(request)
    text = page([slot.metrics for slot in pool.slots.values()], request.app.state.http_registry)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def get_load(request: Request) -> Response:
    """The load reports of the loaded models."""
    loads = [{"model": slot.name, **load_of(slot.service)} for slot in pool_of(request).loaded() if slot.service]
    return json_response(loads if request.url.path.endswith("get_load") else {"loads": loads})


async def server_info(request: Request) -> Response:
    """Every model's configuration and state, with the budget."""
    pool = pool_of(request)
    listed = {
        slot.name: {**slot.describe(), **({"info": slot.service.info} if slot.service is not None else {})}
        for slot in pool.slots.values()
    }
    return json_response(
        {"version": __version__, "models_memory": pool.budget, "memory_in_use": pool.held, "models": listed}
    )


async def abort_request(request: Request) -> Response:
    """End one request by its id in whichever model has it, or all."""
    body = await read_json(request, empty_ok=True)
    rid, everything = body.get("rid") or "", body.get("abort_all") or False
    if not isinstance(rid, str):
        raise refuse("rid", "must be a text")
    if not isinstance(everything, bool):
        raise refuse("abort_all", "must be true or false")
    if not rid and not everything:
        raise refuse("rid", "is required (or abort_all: true)")
    fronts = [slot.service.front for slot in pool_of(request).loaded() if slot.service is not None]
    return json_response({"aborted": sum(front.abort(rid, everything=everything) for front in fronts)})


async def flush_cache(request: Request) -> Response:
    """Empty the prefix caches of the loaded models. 400 while requests run."""
    for slot in pool_of(request).loaded():
        if slot.service is not None and await slot.service.front.control("flush_cache") is False:
            raise RequestError("the cache cannot be flushed while requests run", status=400, code="busy")
    return PlainTextResponse("Caches flushed.\n")


async def configure_logging(request: Request) -> Response:
    """The log of the server and of the loaded models; models that are loaded later begin with the server's options."""
    body = parse_model(await read_json(request), LoggingBody)
    for slot in pool_of(request).loaded():
        if slot.service is not None:
            await set_logging(body, slot.service)
    return json_response({"message": "Logging configured.", "success": True})


async def tags(request: Request) -> Response:
    return json_response({"models": [_tag(slot) for slot in pool_of(request).slots.values()]})


async def running(request: Request) -> Response:
    return json_response(
        {"models": [ollama.loaded(slot.service) for slot in pool_of(request).loaded() if slot.service]}
    )


def _tag(slot: Slot) -> dict[str, Any]:
    if slot.service is not None:
        return ollama.entry(slot.service)
    family = slot.prepared.plan.model.model_type or "unknown"
    return {
        "name": slot.name,
        "model": slot.name,
        "modified_at": "",
        "size": slot.prepared.files.weight_bytes,
        "digest": "",
        "details": {"parent_model": "", "format": "", "family": family, "families": [family], "parameter_size": ""},
    }


def routes() -> list[Route]:
    both = ["GET", "POST"]
    return [
        Route("/", endpoint(about)),
        Route("/health", endpoint(health)),
        Route("/ping", endpoint(health)),
        Route("/v1/models", endpoint(models)),
        Route("/v1/models/{name:path}", endpoint(model)),
        Route("/models/load", endpoint(load), methods=["POST"]),
        Route("/models/unload", endpoint(unload), methods=["POST"]),
        Route("/metrics", endpoint(metrics)),
        Route("/get_load", endpoint(get_load)),
        Route("/v1/loads", endpoint(get_load)),
        Route("/server_info", endpoint(server_info)),
        Route("/get_server_info", endpoint(server_info)),
        Route("/abort_request", endpoint(abort_request), methods=["POST"]),
        Route("/flush_cache", endpoint(flush_cache), methods=both),
        Route("/configure_logging", endpoint(configure_logging), methods=["POST"]),
        Route("/api/tags", endpoint(tags)),
        Route("/api/ps", endpoint(running)),
    ]
