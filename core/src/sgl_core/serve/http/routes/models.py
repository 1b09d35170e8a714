"""What is served: /v1/models, /model_info, /server_info."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sgl_core import __version__
from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.core.service import Service
from sgl_core.serve.http.errors import endpoint, json_response


def model_object(service: Service) -> dict[str, Any]:
    """One model in OpenAI's shape, with the context length where other servers put it."""
    card = service.card
    return {
        "id": card.name,
        "object": "model",
        "created": card.created,
        "owned_by": "sgl",
        "root": card.path or card.name,
        "max_model_len": card.context_length or None,
    }


async def models(request: Request) -> Response:
    return json_response({"object": "list", "data": [model_object(request.app.state.service)]})


async def model(request: Request) -> Response:
    service: Service = request.app.state.service
    name = request.path_params["name"]
    if name != service.card.name:
        raise RequestError(f"there is no model {name!r}", param="model", status=404, code="model_not_found")
    return json_response(model_object(service))


async def model_info(request: Request) -> Response:
    service: Service = request.app.state.service
    card = service.card
    return json_response(
        {
            **_model_paths(service),
            "is_generation": card.generates,
            "preferred_sampling_params": dict(card.defaults) or None,
            "weight_version": card.weight_version,
            "architectures": list(card.architectures),
            "model_type": card.model_type,
            "context_length": card.context_length,
            "vocab_size": card.vocab_size,
        }
    )


def _model_paths(service: Service) -> dict[str, str]:
    """Routers read them to know the model of a worker."""
    card = service.card
    tokenizer = service.info.get("tokenizer_path") or card.path
    return {"model_path": card.path, "served_model_name": card.name, "tokenizer_path": tokenizer}


async def server_info(request: Request) -> Response:
    """The resolved configuration, its ledger, and the worker's state; secrets are masked where ``info`` was made."""
    service: Service = request.app.state.service
    front = service.front
    return json_response(
        {
            **service.info,
            **_model_paths(service),  # what is served, where the configuration has only what was asked for
            "version": __version__,
            "status": front.state,
            "uptime": time.time() - front.started_at,
            "capacity": front.capacity,
            "internal_states": [msgspec.structs.asdict(front.stats)],
        }
    )


def routes() -> list[Route]:
    return [
        Route("/v1/models", endpoint(models)),
        Route("/v1/models/{name:path}", endpoint(model)),
        Route("/model_info", endpoint(model_info)),
        Route("/get_model_info", endpoint(model_info)),
        Route("/server_info", endpoint(server_info)),
        Route("/get_server_info", endpoint(server_info)),
    ]
