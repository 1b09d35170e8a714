"""The served model as Ollama's clients see it: in lists, in full, and loaded."""

from __future__ import annotations

import hashlib
from datetime import datetime, timezone
from typing import Any

from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.core.service import Service

FOREVER = "2318-01-01T00:00:00Z"
"""When a model is unloaded that stays loaded, as Ollama writes it."""


def details(service: Service) -> dict[str, Any]:
    """What kind of model it is. Sizes that the front does not know are left empty."""
    family = service.card.model_type or "unknown"
    return {
        "parent_model": "",
        "format": "gguf" if service.card.path.endswith(".gguf") else "safetensors",
        "family": family,
        "families": [family],
        "parameter_size": "",
        "quantization_level": str(service.info.get("quantization") or ""),
    }


def entry(service: Service) -> dict[str, Any]:
    """The model in /api/tags."""
    card = service.card
    return {
        "name": card.name,
        "model": card.name,
        "modified_at": _time(card.created),
        "size": int(service.front.capacity.get("weight_bytes") or 0),
        "digest": hashlib.sha256(f"{card.name}\n{card.path}\n{card.weight_version}".encode()).hexdigest(),
        "details": details(service),
    }


def loaded(service: Service) -> dict[str, Any]:
    """The model in /api/ps."""
    found = entry(service)
    return {
        **{key: found[key] for key in ("name", "model", "size", "digest", "details")},
        "expires_at": FOREVER,
        "size_vram": found["size"],
        "context_length": service.card.context_length,
    }


def shown(service: Service, name: str) -> dict[str, Any]:
    """/api/show. Raises RequestError (404) for another model."""
    card = service.card
    if name.removesuffix(":latest") != card.name.removesuffix(":latest"):
        raise RequestError(f"model {name!r} not found", param="model", status=404, code="model_not_found")
    family = card.model_type or "unknown"
    capabilities = ["completion"] if card.generates else []
    if service.tool_parser is not None:
        capabilities.append("tools")
    if service.reasoning_parser is not None:
        capabilities.append("thinking")
    if card.embeds:
        capabilities.append("embedding")
    return {
        "modelfile": f"FROM {card.path or card.name}\n",
        "parameters": "\n".join(f"{key} {value}" for key, value in card.defaults.items()),
        "template": service.template.source if service.template is not None else "",
        "license": "",
        "modified_at": _time(card.created),
        "details": details(service),
        "model_info": {
            "general.architecture": family,
            "general.basename": card.name,
            f"{family}.context_length": card.context_length,
            f"{family}.vocab_size": card.vocab_size,
        },
        "capabilities": capabilities,
    }


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat().replace("+00:00", "Z")
