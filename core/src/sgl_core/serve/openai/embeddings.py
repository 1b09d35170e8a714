"""/v1/embeddings: texts or token ids to vectors, as numbers or base64 of little-endian float32."""

from __future__ import annotations

import base64
import uuid
from typing import Any

import numpy as np

from sgl_core.serve.core.answer import Answer
from sgl_core.serve.core.errors import RequestError, refuse, refuse_unserved
from sgl_core.serve.core.request import TextRequest
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.validate import check_integer
from sgl_core.serve.embedding.vectors import check_embeds, pooled
from sgl_core.serve.unserved_fields import VECTORS

from .fields import ApiModel


class EmbeddingRequest(ApiModel):
    """OpenAI's fields; ``truncate_prompt_tokens`` is how other servers let long texts be cut (-1: to the context)."""

    input: Any = None
    model: str | None = None
    encoding_format: str | None = None
    dimensions: int | None = None
    user: str | None = None
    rid: str | None = None
    priority: int | None = None
    truncate_prompt_tokens: int | None = None


async def translate(body: EmbeddingRequest, service: Service) -> list[TextRequest]:
    """Requests that are pooled instead of sampled. Raises RequestError."""
    refuse_unserved(body.extras(), VECTORS)
    if body.encoding_format not in (None, "float", "base64"):
        raise refuse("encoding_format", f"must be float or base64, not {body.encoding_format!r}")
    check_embeds(service, "input")
    if body.dimensions is not None:
        check_integer(body.dimensions, "dimensions", 1)
    requests, _ = await pooled(body.input, "input", service, truncate=body.truncate_prompt_tokens)
    rid = body.rid or f"embd-{uuid.uuid4().hex}"
    for request in requests:
        request.rid, request.priority = rid, body.priority or 0
    return requests


def plain(body: EmbeddingRequest, service: Service, answers: list[Answer]) -> dict[str, Any]:
    """OpenAI's list of embeddings."""
    data = [{"object": "embedding", "index": answer.index, "embedding": _encoded(answer, body)} for answer in answers]
    tokens = sum(answer.end.prompt_tokens for answer in answers)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": service.card.name, "usage": usage}


def _encoded(answer: Answer, body: EmbeddingRequest) -> list[float] | str:
    if answer.end.embedding is None:
        raise RequestError("the model gave no embedding", status=500)
    vector = np.asarray(answer.end.embedding, dtype="<f4")
    if body.dimensions is not None:
        if body.dimensions > len(vector):
            raise refuse("dimensions", f"the model's vectors have {len(vector)} dimensions, not {body.dimensions}")
        vector = vector[: body.dimensions]
        norm = float(np.linalg.norm(vector))
        vector = vector / np.float32(norm) if norm else vector
    if body.encoding_format == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
    return [float(value) for value in vector]
