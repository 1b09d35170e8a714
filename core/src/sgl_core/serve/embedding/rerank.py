"""/v1/rerank in the shape of Jina and Cohere: documents by what a reranker says, or by how near their vectors are to the query's."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sgl_core.serve.core.answer import Answer
from sgl_core.serve.core.errors import RequestError, refuse, unsupported
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.validate import check_integer, shown
from sgl_core.serve.http.body import read_model
from sgl_core.serve.http.errors import json_response
from sgl_core.serve.http.sse import whole_answer
from sgl_core.serve.openai.fields import ApiModel

from .vectors import check_ranks, cosine, pair_scores, paired, pooled, usage, vector


class RerankRequest(ApiModel):
    """``documents`` are texts or objects with a ``text``."""

    model: str | None = None
    query: Any = None
    documents: Any = None
    top_n: int | None = None
    return_documents: bool | None = None
    rank_fields: list[str] | None = None
    max_tokens_per_doc: int | None = None
    max_chunks_per_doc: int | None = None
    instruct: str | None = None
    truncate_prompt_tokens: int | None = None
    user: str | None = None


async def rerank(request: Request) -> Response:
    body = await read_model(request, RerankRequest)
    service: Service = request.app.state.service
    service.front.check_open()
    for name in ("rank_fields", "max_tokens_per_doc", "max_chunks_per_doc"):
        if getattr(body, name) is not None:
            raise unsupported(name, "documents are read whole")
    if not isinstance(body.query, str) or not body.query.strip():
        raise refuse("query", f"must be a text that is not empty, not {shown(body.query)}")
    texts = _texts(body.documents)
    top = len(texts) if body.top_n is None else check_integer(body.top_n, "top_n", 1)
    query = f"{body.instruct}\n{body.query}" if body.instruct else body.query
    scores, answers = await _scores(request, query, texts, body.truncate_prompt_tokens)
    order = sorted(range(len(texts)), key=lambda at: (-scores[at], at))[:top]
    results: list[dict[str, Any]] = [{"index": at, "relevance_score": scores[at]} for at in order]
    if body.return_documents is not False:
        for entry in results:
            entry["document"] = {"text": texts[entry["index"]]}
    return json_response(
        {
            "id": f"rerank-{uuid.uuid4().hex}",
            "object": "list",
            "model": service.card.name,
            "results": results,
            "usage": usage(answers),
        }
    )


async def _scores(
    request: Request, query: str, texts: list[str], truncate: int | None
) -> tuple[list[float], list[Answer]]:
    """A score for each text, and the answers they come from."""
    service: Service = request.app.state.service
    check_ranks(service, "query")
    if service.card.labels:
        pairs = await paired(query, texts, ("query", "documents"), service, truncate)
        answers = await whole_answer(request, service.front.submit(pairs))
        return pair_scores(answers, service.card), answers
    first, _ = await pooled(query, "query", service, truncate=truncate)
    rest, _ = await pooled(texts, "documents", service, truncate=truncate)
    answers = await whole_answer(request, service.front.submit([*first, *rest]))
    target, *vectors = [vector(answer) for answer in answers]
    return [cosine(target, found) for found in vectors], answers


def _texts(documents: Any) -> list[str]:
    if not isinstance(documents, list) or not documents:
        raise refuse("documents", f"must be a list of texts that is not empty, not {shown(documents)}")
    texts: list[str] = []
    for at, entry in enumerate(documents):
        text = entry.get("text") if isinstance(entry, Mapping) else entry
        if not isinstance(text, str):
            raise RequestError(
                f"documents[{at}]: must be a text or an object with a text, not {shown(entry)}",
                param="documents",
                code="invalid_value",
            )
        texts.append(text)
    return texts
