"""/v1/embeddings: texts or token ids to vectors, as numbers or base64 of little-endian float32."""

from __future__ import annotations

import base64
import uuid
from typing import Any

import numpy as np

from sgl_core.serve.core.answer import Answer
from sgl_core.serve.core.errors import RequestError, refuse, unsupported
from sgl_core.serve.core.prompts import prompt_list
from sgl_core.serve.core.request import TextRequest
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.validate import check_integer, fit_context, sampling_params

from .fields import ApiModel

MAX_INPUTS = 2048


class EmbeddingRequest(ApiModel):
    """OpenAI's fields."""

    input: Any = None
    model: str | None = None
    encoding_format: str | None = None
    dimensions: int | None = None
    user: str | None = None
    rid: str | None = None


async def translate(body: EmbeddingRequest, service: Service) -> list[TextRequest]:
    """Requests that are pooled instead of sampled. Raises RequestError."""
    card = service.card
    if body.encoding_format not in (None, "float", "base64"):
        raise refuse("encoding_format", f"must be float or base64, not {body.encoding_format!r}")
    if not card.embeds:
        raise unsupported("input", f"model {card.name!r} gives no embeddings; start it with --is-embedding")
    prompts, _ = prompt_list(body.input, "input", card)
    if len(prompts) > MAX_INPUTS:
        raise refuse("input", f"has {len(prompts)} entries; at most {MAX_INPUTS} are served")
    if body.dimensions is not None:
        check_integer(body.dimensions, "dimensions", 1)
    sampling = sampling_params({"max_new_tokens": 0}, card)
    rid = body.rid or f"embd-{uuid.uuid4().hex}"
    requests = []
    for prompt in prompts:
        encoded = await service.encoder.prompt(prompt, "input")
        fit_context(sampling, len(encoded.ids), card, param="input", limit_param="input")
        requests.append(TextRequest(input_ids=encoded.ids, sampling=sampling, embed=True, rid=rid))
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
