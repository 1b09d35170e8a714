"""The routes of the embedding family, but /v1/embeddings, which stands with the other OpenAI routes."""

from __future__ import annotations

from starlette.routing import Route

from sgl_core.serve.http.errors import endpoint

from .classify import classify, encode
from .rerank import rerank
from .score import score


def routes() -> list[Route]:
    return [
        *(Route(path, endpoint(score), methods=["POST"]) for path in ("/v1/score", "/score")),
        *(Route(path, endpoint(rerank), methods=["POST"]) for path in ("/v1/rerank", "/v2/rerank", "/rerank")),
        *(Route(path, endpoint(classify), methods=["POST"]) for path in ("/classify", "/v1/classify")),
        Route("/encode", endpoint(encode), methods=["POST", "PUT"]),
    ]
