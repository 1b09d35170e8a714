"""/classify, where the served model has a classification head: its pooled answer is a value a class. And the native /encode."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from sgl_core.serve.core.answer import Answer
from sgl_core.serve.core.errors import RequestError, refuse, refuse_unserved, unsupported
from sgl_core.serve.core.service import Service
from sgl_core.serve.http.body import read_model
from sgl_core.serve.http.errors import json_response
from sgl_core.serve.http.sse import whole_answer
from sgl_core.serve.openai.fields import ApiModel
from sgl_core.serve.unserved_fields import VECTORS

from .vectors import Vector, check_embeds, logistic, pooled, usage, vector

UNSERVED = {
    **VECTORS,
    "dimensions": "use /v1/embeddings",
    "modalities": "this model reads text only",
    "priority": "use /v1/embeddings",
    "sampling_params": "a vector is not sampled",
}


class NativeBody(ApiModel):
    """``text`` or ``input_ids``, one or several; ``input`` is how other servers call it."""

    model: str | None = None
    text: Any = None
    input_ids: Any = None
    input: Any = None
    rid: str | list[str] | None = None
    image_data: Any = None
    truncate_prompt_tokens: int | None = None
    user: str | None = None

    def source(self, *names: str) -> str:
        """Which field holds the prompts. Raises RequestError unless it is exactly one."""
        refuse_unserved(self.extras(), UNSERVED)
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            raise refuse(names[0], f"give either {' or '.join(names)}")
        if self.image_data not in (None, [], ""):
            raise unsupported("image_data", "this model reads text only")
        return given[0]


async def classify(request: Request) -> Response:
    body = await read_model(request, NativeBody)
    service: Service = request.app.state.service
    service.front.check_open()
    field = body.source("text", "input_ids", "input")
    if not service.card.labels:
        raise RequestError(
            f"model {service.card.name!r} has no classification head (its architecture is "
            f"{', '.join(service.card.architectures) or 'unknown'}); serve a ...ForSequenceClassification model",
            status=501,
            code="not_implemented",
        )
    requests, several = await pooled(
        getattr(body, field), field, service, _rids(body, field), body.truncate_prompt_tokens
    )
    answers = await whole_answer(request, service.front.submit(requests))
    if field != "input":
        out = [_native(answer, service) for answer in answers]
        return json_response(out if several else out[0])
    data = [{"index": answer.index, **_label(vector(answer), service.card.labels)} for answer in answers]
    frame = {"id": f"classify-{uuid.uuid4().hex}", "object": "list", "created": int(time.time())}
    return json_response({**frame, "model": service.card.name, "data": data, "usage": usage(answers)})


def _label(logits: Vector, labels: Sequence[str]) -> dict[str, Any]:
    """The likeliest class, and every class's probability (a lone value: logistic, several: softmax)."""
    if len(logits) == 1:
        return {"label": labels[0], "probs": [logistic(float(logits[0]))], "num_classes": 1}
    weights = np.exp(logits - logits.max())
    probabilities = weights / weights.sum()
    best = int(probabilities.argmax())
    return {"label": labels[best], "probs": [float(p) for p in probabilities], "num_classes": len(logits)}


async def encode(request: Request) -> Response:
    """The native route of embeddings."""
    body = await read_model(request, NativeBody)
    service: Service = request.app.state.service
    service.front.check_open()
    field = body.source("text", "input_ids")
    check_embeds(service, field)
    requests, several = await pooled(
        getattr(body, field), field, service, _rids(body, field), body.truncate_prompt_tokens
    )
    answers = await whole_answer(request, service.front.submit(requests))
    out = [_native(answer, service) for answer in answers]
    return json_response(out if several else out[0])


def _native(answer: Answer, service: Service) -> dict[str, Any]:
    meta = {
        "finish_reason": {"type": "stop", "matched": None},
        "prompt_tokens": answer.end.prompt_tokens,
        "cached_tokens": answer.cached_tokens,
        "weight_version": service.card.weight_version,
    }
    return {"embedding": [float(value) for value in vector(answer)], "meta_info": meta}


def _rids(body: NativeBody, field: str) -> list[str]:
    if body.rid is None:
        return []
    value = getattr(body, field)
    rows = len(value) if isinstance(value, list) and value and not isinstance(value[0], int) else 1
    rids = body.rid if isinstance(body.rid, list) else [body.rid] * rows
    if len(rids) != rows:
        raise refuse("rid", f"has {len(rids)} entries for {rows} prompts")
    return rids
