"""Models that answer with vectors: pairs, scores, truncation, and routes that generate."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, processors

from sgl_core.checkpoint.tokenizer import Tokenizer
from sgl_core.engine.messages import Generate, Output

pytestmark = pytest.mark.anyio
EMBEDDER = {"generates": False, "embeds": True}
RERANKER = {"generates": False, "labels": ("LABEL_0",)}
WORDS = ["[UNK]", "[CLS]", "[SEP]", *(f"w{n}" for n in range(40))]
CLS, SEP = 1, 2


@pytest.fixture
def pairs_tokenizer() -> Tokenizer:
    """Words, in BERT's frames for one text and for two."""
    backend = Backend(models.WordLevel({word: at for at, word in enumerate(WORDS)}, "[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens(WORDS[:3])
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
    return Tokenizer(backend)


def length_is_the_score(message: Generate) -> Iterable[Output]:
    """A reranker that likes long second texts."""
    value = float(len(message.input_ids) - message.second_segment)
    yield Output(rid=message.rid, embedding=[value], finish_reason="stop", prompt_tokens=len(message.input_ids))


def vectors(message: Generate) -> Iterable[Output]:
    yield Output(rid=message.rid, embedding=[1.0, 0.0], finish_reason="stop", prompt_tokens=len(message.input_ids))


def ids(*numbers: int) -> list[int]:
    return [3 + number for number in numbers]


async def test_a_reranker_reads_query_and_document_as_one_prompt(serve, pairs_tokenizer) -> None:
    async with serve(length_is_the_score, card=RERANKER, with_tokenizer=pairs_tokenizer) as api:
        body = {"query": "w1 w2", "documents": ["w3", "w4 w5 w6", {"text": "w7 w8"}]}
        answer = (await api.post("/v1/rerank", body)).json()
        assert [entry["index"] for entry in answer["results"]] == [1, 2, 0]
        assert answer["results"][0]["relevance_score"] == pytest.approx(1 / (1 + math.exp(-4)))
        assert answer["usage"]["prompt_tokens"] == 6 + 8 + 7
        first = api.channel.generated()[0]
        assert first.input_ids == [CLS, *ids(1, 2), SEP, *ids(3), SEP]
        assert first.second_segment == 4
        assert first.embed
        score = (await api.post("/v1/score", {"text_1": ["w1", "w2"], "text_2": ["w3", "w4 w5"]})).json()
        assert [entry["score"] for entry in score["data"]] == [
            pytest.approx(1 / (1 + math.exp(-n))) for n in (2.0, 3.0)
        ]


async def test_scores_stay_raw_where_the_publisher_wants_it(serve, pairs_tokenizer) -> None:
    card = {**RERANKER, "raw_scores": True}
    async with serve(length_is_the_score, card=card, with_tokenizer=pairs_tokenizer) as api:
        answer = (await api.post("/rerank", {"query": "w1", "documents": ["w2 w3"]})).json()
        assert answer["results"][0]["relevance_score"] == 3.0


async def test_several_classes_are_no_score(serve, pairs_tokenizer) -> None:
    card = {"generates": False, "labels": ("a", "b")}
    async with serve(length_is_the_score, card=card, with_tokenizer=pairs_tokenizer) as api:
        for path, body in (
            ("/rerank", {"query": "w1", "documents": ["w2"]}),
            ("/v1/score", {"text_1": "w1", "text_2": "w2"}),
        ):
            response = await api.post(path, body)
            assert response.status_code == 400
            assert "tells 2 classes apart" in response.json()["error"]["message"]


async def test_a_classifier_gives_no_embeddings(serve, pairs_tokenizer) -> None:
    async with serve(length_is_the_score, card=RERANKER, with_tokenizer=pairs_tokenizer) as api:
        for path, body in (("/v1/embeddings", {"input": "w1"}), ("/encode", {"text": "w1"})):
            response = await api.post(path, body)
            assert response.status_code == 400
            assert "classifies texts" in response.json()["error"]["message"]


async def test_token_ids_are_no_pair(serve, pairs_tokenizer) -> None:
    async with serve(length_is_the_score, card=RERANKER, with_tokenizer=pairs_tokenizer) as api:
        for body, field in (
            ({"text_1": [4, 5], "text_2": "w1"}, "text_1"),
            ({"text_1": "w1", "text_2": [[4], [5]]}, "text_2"),
            ({"text_1": ["w1", "w2", "w3"], "text_2": ["w1", "w2"]}, "text_1"),
        ):
            response = await api.post("/v1/score", body)
            assert response.status_code == 400
            assert response.json()["error"]["param"] == field


async def test_long_texts_are_refused_or_cut_before_their_separator(serve, pairs_tokenizer) -> None:
    long = " ".join(f"w{n}" for n in range(30))
    card = {**EMBEDDER, "context_length": 12}
    async with serve(vectors, card=card, with_tokenizer=pairs_tokenizer) as api:
        refused = await api.post("/v1/embeddings", {"input": long})
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == "context_length_exceeded"
        for wanted, size in ((-1, 12), (5, 5), (100, 0)):
            body = {"input": long, "truncate_prompt_tokens": wanted}
            response = await api.post("/v1/embeddings", body)
            assert response.status_code == (200 if size else 400)
            if size:
                assert api.channel.generated()[-1].input_ids == [CLS, *ids(*range(size - 2)), SEP]
        for wanted in (0, -2):
            response = await api.post("/v1/embeddings", {"input": "w1", "truncate_prompt_tokens": wanted})
            assert response.status_code == 400
            assert response.json()["error"]["param"] == "truncate_prompt_tokens"
    async with serve(vectors, card={**card, "auto_truncate": True}, with_tokenizer=pairs_tokenizer) as api:
        assert (await api.post("/v1/embeddings", {"input": ["w1", long]})).status_code == 200
        assert [len(message.input_ids) for message in api.channel.generated()] == [3, 12]


async def test_of_a_long_pair_the_second_text_is_cut(serve, pairs_tokenizer) -> None:
    card = {**RERANKER, "context_length": 8, "auto_truncate": True}
    async with serve(length_is_the_score, card=card, with_tokenizer=pairs_tokenizer) as api:
        body = {"query": "w1 w2", "documents": ["w3 w4 w5 w6 w7 w8"]}
        assert (await api.post("/rerank", body)).status_code == 200
        assert api.channel.generated()[-1].input_ids == [CLS, *ids(1, 2), SEP, *ids(3, 4, 5), SEP]
        response = await api.post("/rerank", {"query": "w1 w2 w3 w4 w5 w6 w7 w8", "documents": ["w3"]})
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "query"


CHAT = {"model": "m", "messages": [{"role": "user", "content": "w1"}]}
GENERATING: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", CHAT),
    ("/v1/completions", {"prompt": "w1"}),
    ("/generate", {"text": "w1"}),
    ("/v1/responses", {"input": "w1"}),
    ("/v1/messages", {**CHAT, "max_tokens": 4}),
    ("/api/chat", CHAT),
    ("/api/generate", {"model": "m", "prompt": "w1"}),
    ("/v1/score", {"query": "w1", "items": ["w2"], "label_token_ids": [4]}),
]


@pytest.mark.parametrize("card", [EMBEDDER, RERANKER], ids=["embeds", "classifies"])
async def test_text_is_not_generated(serve, pairs_tokenizer, card: dict[str, Any]) -> None:
    async with serve(vectors, card=card, with_tokenizer=pairs_tokenizer) as api:
        for path, body in GENERATING:
            for streamed in (False, True):
                response = await api.post(path, {**body, "stream": streamed})
                assert response.status_code == 400, (path, response.text)
                assert "generates no text" in response.text
        assert not api.channel.generated()
        assert (await api.client.get("/health_generate")).status_code == 200
