"""Texts to vectors through the core: what embeddings, rerank, pair scores, classify and encode share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgl_core.serve.core.answer import Answer
from sgl_core.serve.core.errors import RequestError, refuse, unsupported
from sgl_core.serve.core.prompts import prompt_list
from sgl_core.serve.core.request import ModelCard, TextRequest
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.validate import check_integer, fit_context, sampling_params

Vector = NDArray[np.float32]
MAX_PROMPTS = 2048


def check_embeds(service: Service, field: str) -> None:
    """Raises RequestError where the model gives no vectors."""
    card = service.card
    if card.labels:
        raise unsupported(
            field,
            f"model {card.name!r} classifies texts and gives no embeddings; use /v1/rerank, /v1/score or /classify",
        )
    if not card.embeds:
        raise unsupported(field, f"model {card.name!r} gives no embeddings; start it with --is-embedding")


def check_ranks(service: Service, field: str) -> None:
    """Raises RequestError where the model gives neither vectors nor one score for a pair."""
    labels = service.card.labels
    if len(labels) > 1:
        raise unsupported(
            field, f"model {service.card.name!r} tells {len(labels)} classes apart and gives no one score"
        )
    if not labels:
        check_embeds(service, field)


async def pooled(
    value: Any, field: str, service: Service, rids: Sequence[str] = (), truncate: Any = None
) -> tuple[list[TextRequest], bool]:
    """Requests that are pooled instead of sampled, and whether the client sent several.

    ``truncate`` is the client's ``truncate_prompt_tokens``. Raises RequestError.
    """
    prompts, several = prompt_list(value, field, service.card)
    if len(prompts) > MAX_PROMPTS:
        raise refuse(field, f"has {len(prompts)} entries; at most {MAX_PROMPTS} are served")
    most = _most(truncate, service.card)
    requests = []
    for row, prompt in enumerate(prompts):
        encoded = await service.encoder.prompt(prompt, field)
        request = _request(_cut(encoded.ids, most, service), field, service)
        request.rid = rids[row] if rids else None
        requests.append(request)
    return requests, several


async def paired(
    first: Any, second: Any, names: tuple[str, str], service: Service, truncate: Any = None
) -> list[TextRequest]:
    """Requests for a model that reads two texts at once; one first text may stand against several second ones.

    Of a pair that is too long the second text is cut, where cutting is asked for. Raises RequestError.
    """
    card = service.card
    (ones, _), (twos, _) = (prompt_list(value, name, card) for value, name in zip((first, second), names, strict=True))
    check_numbers(len(ones), len(twos), names)
    most = _most(truncate, card)
    requests = []
    for row, two in enumerate(twos):
        one = ones[row if len(ones) > 1 else 0]
        if not isinstance(one, str) or not isinstance(two, str):
            raise refuse(names[not isinstance(two, str)], "must be text: this model reads both texts as one prompt")
        ids, begins = await service.encoder.pair(one, two)
        ids = _cut(ids, most, service)
        if begins >= len(ids):
            raise refuse(names[0], f"fills the {len(ids)} tokens that a pair may have by itself")
        request = _request(ids, names[1], service)
        request.second_segment = begins
        requests.append(request)
    return requests


def check_numbers(ones: int, twos: int, names: tuple[str, str]) -> None:
    """Raises RequestError where so many first texts cannot stand against so many second ones."""
    if ones not in (1, twos):
        raise refuse(names[0], f"has {ones} texts for the {twos} of {names[1]}")
    if twos > MAX_PROMPTS:
        raise refuse(names[1], f"has {twos} entries; at most {MAX_PROMPTS} are served")


def pair_scores(answers: Sequence[Answer], card: ModelCard) -> list[float]:
    """What a reranker says of each pair: from 0 to 1, unless its publisher wants its value as it stands."""
    values = [float(vector(answer)[0]) for answer in answers]
    return values if card.raw_scores else [logistic(value) for value in values]


def _request(ids: list[int], field: str, service: Service) -> TextRequest:
    sampling = sampling_params({"max_new_tokens": 0}, service.card)
    fit_context(sampling, len(ids), service.card, param=field, limit_param=field)
    return TextRequest(input_ids=ids, sampling=sampling, embed=True)


def _most(truncate: Any, card: ModelCard) -> int:
    """To how many tokens prompts are cut; 0: they are not."""
    if truncate is None:
        return card.context_length if card.auto_truncate else 0
    most = check_integer(truncate, "truncate_prompt_tokens", -1)
    if most == 0:
        raise refuse("truncate_prompt_tokens", "must be at least 1, or -1 for the model's context, not 0")
    return card.context_length if most < 0 else most


def _cut(ids: list[int], most: int, service: Service) -> list[int]:
    """At most ``most`` ids, by leaving out text: what ends a prompt (a separator) ends it still."""
    if not most or len(ids) <= most:
        return ids
    special = service.tokenizer.special_token_ids
    kept = next((n for n, token in enumerate(reversed(ids)) if token not in special), 0)
    kept = min(kept, most)
    return [*ids[: most - kept], *ids[len(ids) - kept :]]


def vector(answer: Answer) -> Vector:
    """The vector of an answer."""
    if answer.end.embedding is None:
        raise RequestError("the model gave no embedding", status=500)
    return np.asarray(answer.end.embedding, dtype=np.float32)


def cosine(one: Vector, two: Vector) -> float:
    """The cosine of the angle between two vectors; 0 where one has no length."""
    length = float(np.linalg.norm(one)) * float(np.linalg.norm(two))
    return float(np.dot(one, two)) / length if length else 0.0


def logistic(value: float) -> float:
    """1 / (1 + exp(-value)), for any value."""
    return float(np.exp(-np.logaddexp(0.0, -value)))


def usage(answers: Sequence[Answer]) -> dict[str, int]:
    """Tokens of prompts."""
    tokens = sum(answer.end.prompt_tokens for answer in answers)
    return {"prompt_tokens": tokens, "total_tokens": tokens}
