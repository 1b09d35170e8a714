"""/v1/score: how likely a generating model continues with each of some labels, or how near two texts are to another model."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sgl_core.serve.core.answer import Answer
from sgl_core.serve.core.errors import RequestError, refuse, refuse_unserved, unsupported
from sgl_core.serve.core.prompts import prompt_list
from sgl_core.serve.core.request import TextRequest
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.validate import check_text, check_token, fit_context, logprob_options, sampling_params, shown
from sgl_core.serve.http.body import read_model
from sgl_core.serve.http.errors import json_response
from sgl_core.serve.http.sse import whole_answer
from sgl_core.serve.openai.fields import ApiModel
from sgl_core.serve.unserved_fields import VECTORS

from .vectors import check_numbers, check_ranks, cosine, pair_scores, paired, pooled, usage, vector

MAX_ITEMS = 2048


class ScoreRequest(ApiModel):
    """The reference's form (``query``, ``items``, ``label_token_ids``) or pairs of texts (``text_1``, ``text_2``)."""

    model: str | None = None
    query: Any = None
    items: Any = None
    label_token_ids: list[int] | None = None
    apply_softmax: bool | None = None
    item_first: bool | None = None
    text_1: Any = None
    text_2: Any = None
    truncate_prompt_tokens: int | None = None
    user: str | None = None


async def score(request: Request) -> Response:
    body = await read_model(request, ScoreRequest)
    refuse_unserved(body.extras(), VECTORS)
    service: Service = request.app.state.service
    service.front.check_open()
    if body.text_1 is not None or body.text_2 is not None:
        return json_response(await _pairs(request, body, service))
    return json_response(await _labels(request, body, service))


# -- labels -----------------------------------------------------------------------------------------------------------


async def _labels(request: Request, body: ScoreRequest, service: Service) -> dict[str, Any]:
    card = service.card
    if not card.generates:
        raise unsupported("label_token_ids", f"model {card.name!r} generates no text; send text_1 and text_2")
    if not body.label_token_ids:
        raise refuse("label_token_ids", "must be a list of token ids that is not empty")
    labels = [check_token(token, "label_token_ids", card) for token in body.label_token_ids]
    options = logprob_options(card, output=True, top=0, token_ids=labels, name="label_token_ids")
    sampling = sampling_params({"max_new_tokens": 1, "temperature": 0, "ignore_eos": True}, card)
    requests = []
    for ids in await _prompts(body, service):
        fit_context(sampling, len(ids), card, param="items", limit_param="items")
        requests.append(TextRequest(input_ids=ids, sampling=sampling, logprobs=options))
    answers = await whole_answer(request, service.front.submit(requests))
    scores = [_scores(answer, labels, body.apply_softmax is True) for answer in answers]
    return {"scores": scores, "model": card.name, "usage": usage(answers), "object": "scoring"}


async def _prompts(body: ScoreRequest, service: Service) -> list[list[int]]:
    """One prompt an item: query and item joined, as texts or as token ids."""
    items = body.items
    if isinstance(items, str):
        items = [items]
    if not isinstance(items, list) or not items:
        raise refuse("items", f"must be a list of texts or of token ids that is not empty, not {shown(items)}")
    if len(items) > MAX_ITEMS:
        raise refuse("items", f"has {len(items)} entries; at most {MAX_ITEMS} are served")
    if isinstance(body.query, str):
        if not all(isinstance(item, str) for item in items):
            raise refuse("items", "must be texts, as query is")
        texts = [item + body.query if body.item_first else body.query + item for item in items]
        for at, text in enumerate(texts):
            check_text(text, f"items[{at}]")
            if not text.strip():
                raise RequestError(f"items[{at}]: query and item are empty", param="items", code="invalid_value")
        return [(await service.encoder.prompt(text, "items")).ids for text in texts]
    if not isinstance(body.query, list):
        raise refuse("query", f"must be a text or a list of token ids, not {shown(body.query)}")
    query = [check_token(token, "query", service.card) for token in body.query]
    rows, _ = prompt_list(items, "items", service.card)
    if not all(isinstance(item, list) for item in items):
        raise refuse("items", "must be lists of token ids, as query is")
    return [[*row, *query] if body.item_first else [*query, *row] for row in rows if isinstance(row, list)]


def _scores(answer: Answer, labels: Sequence[int], softmax: bool) -> list[float]:
    """The labels' probabilities in the order asked; with ``softmax`` among themselves, so that they add up to 1."""
    found = dict(answer.logprobs[0].wanted) if answer.logprobs else {}
    if len(found) < len(set(labels)):
        raise RequestError("the model gave no log-probabilities of the labels", status=500)
    logs = [found[label] for label in labels]
    if not softmax:
        return [math.exp(value) for value in logs]
    top = max(logs)
    if top == -math.inf:
        return [1 / len(logs)] * len(logs)
    weights = [math.exp(value - top) for value in logs]
    return [weight / sum(weights) for weight in weights]


# -- pairs ------------------------------------------------------------------------------------------------------------


async def _pairs(request: Request, body: ScoreRequest, service: Service) -> dict[str, Any]:
    """What a reranker says of two texts, or the cosine of their vectors; one ``text_1`` may stand against several ``text_2``."""
    check_ranks(service, "text_1")
    truncate = body.truncate_prompt_tokens
    if service.card.labels:
        pairs = await paired(body.text_1, body.text_2, ("text_1", "text_2"), service, truncate)
        answers = await whole_answer(request, service.front.submit(pairs))
        scores = pair_scores(answers, service.card)
    else:
        first, _ = await pooled(body.text_1, "text_1", service, truncate=truncate)
        second, _ = await pooled(body.text_2, "text_2", service, truncate=truncate)
        check_numbers(len(first), len(second), ("text_1", "text_2"))
        answers = await whole_answer(request, service.front.submit([*first, *second]))
        vectors = [vector(answer) for answer in answers]
        ones, twos = vectors[: len(first)], vectors[len(first) :]
        scores = [cosine(ones[at if len(ones) > 1 else 0], two) for at, two in enumerate(twos)]
    data = [{"index": at, "object": "score", "score": score} for at, score in enumerate(scores)]
    return {
        "id": f"score-{uuid.uuid4().hex}",
        "object": "list",
        "created": int(time.time()),
        "model": service.card.name,
        "data": data,
        "usage": usage(answers),
    }
