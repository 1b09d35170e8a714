"""Texts to vectors through the core: what rerank, pair scores, classify and encode share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgl_core.serve.core.answer import Answer
from sgl_core.serve.core.errors import RequestError, unsupported
from sgl_core.serve.core.prompts import prompt_list
from sgl_core.serve.core.request import TextRequest
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.validate import fit_context, sampling_params

Vector = NDArray[np.float32]


def check_embeds(service: Service, field: str) -> None:
    """Raises RequestError where the model gives no vectors."""
    if not service.card.embeds:
        raise unsupported(field, f"model {service.card.name!r} gives no embeddings; start it with --is-embedding")


async def pooled(value: Any, field: str, service: Service, rids: Sequence[str] = ()) -> tuple[list[TextRequest], bool]:
    """Requests that are pooled instead of sampled, and whether the client sent several. Raises RequestError."""
    card = service.card
    prompts, several = prompt_list(value, field, card)
    sampling = sampling_params({"max_new_tokens": 0}, card)
    requests = []
    for row, prompt in enumerate(prompts):
        encoded = await service.encoder.prompt(prompt, field)
        fit_context(sampling, len(encoded.ids), card, param=field, limit_param=field)
        rid = rids[row] if rids else None
        requests.append(TextRequest(input_ids=encoded.ids, sampling=sampling, embed=True, rid=rid))
    return requests, several


def vector(answer: Answer) -> Vector:
    """The vector of an answer."""
    if answer.end.embedding is None:
        raise RequestError("the model gave no embedding", status=500)
    return np.asarray(answer.end.embedding, dtype=np.float32)


def cosine(one: Vector, two: Vector) -> float:
    """The cosine of the angle between two vectors; 0 where one has no length."""
    length = float(np.linalg.norm(one)) * float(np.linalg.norm(two))
    return float(np.dot(one, two)) / length if length else 0.0


def usage(answers: Sequence[Answer]) -> dict[str, int]:
    """Tokens of prompts."""
    tokens = sum(answer.end.prompt_tokens for answer in answers)
    return {"prompt_tokens": tokens, "total_tokens": tokens}
