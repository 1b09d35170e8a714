"""Score, rerank, classify and encode."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest

from sgl_core.engine.messages import Generate, Logprobs, Output

pytestmark = pytest.mark.anyio
CARD = {"embeds": True}


def labels(message: Generate) -> Iterable[Output]:
    """A model for which every label is as likely as its id says; one token, as asked for."""
    wanted = [(token, -1.0 - token / 10) for token in message.logprobs.token_ids]
    if message.embed:
        yield Output(rid=message.rid, embedding=[float(len(message.input_ids)), 1.0], finish_reason="stop")
        return
    assert message.sampling.max_new_tokens == 1
    logprobs = Logprobs(token_logprobs=[-0.5], wanted=[wanted])
    yield Output(rid=message.rid, token_ids=[7], logprobs=logprobs, finish_reason="length")


async def test_label_scores_are_the_probabilities_of_the_next_token(serve) -> None:
    async with serve(labels) as api:
        body = {"query": "Is it so? ", "items": ["a", "bc"], "label_token_ids": [5, 3]}
        answer = (await api.post("/v1/score", body)).json()
        assert answer["scores"] == [[pytest.approx(math.exp(-1.5)), pytest.approx(math.exp(-1.3))]] * 2
        assert answer["object"] == "scoring"
        sent = [api.tokenizer.decode(message.input_ids) for message in api.channel.generated()]
        assert sent == ["Is it so? a", "Is it so? bc"]
        assert answer["usage"]["prompt_tokens"] == sum(len(m.input_ids) for m in api.channel.generated())
        soft = (await api.post("/v1/score", {**body, "apply_softmax": True})).json()
        assert [sum(row) for row in soft["scores"]] == [pytest.approx(1.0)] * 2
        await api.post(
            "/v1/score", {"query": [1, 2], "items": [[3], [4, 5]], "label_token_ids": [9], "item_first": True}
        )
        assert [message.input_ids for message in api.channel.generated()[-2:]] == [[3, 1, 2], [4, 5, 1, 2]]


async def test_pairs_and_ranks_go_by_the_cosine(serve) -> None:
    async with serve(labels, card=CARD) as api:
        pairs = (await api.post("/v1/score", {"text_1": "abc", "text_2": ["xyz", "x"]})).json()
        assert pairs["data"][0]["score"] == pytest.approx(1.0)
        assert pairs["data"][1]["score"] < 1.0
        documents = ["a", {"text": "abcd"}, "abc", "abcdefgh"]
        for path in ("/v1/rerank", "/rerank", "/v2/rerank"):
            answer = (await api.post(path, {"model": "m", "query": "abc", "documents": documents})).json()
            assert [entry["index"] for entry in answer["results"]] == [2, 1, 3, 0]
            scores = [entry["relevance_score"] for entry in answer["results"]]
            assert scores == sorted(scores, reverse=True)
        assert answer["results"][1]["document"] == {"text": "abcd"}
        short = {"query": "abc", "documents": documents, "top_n": 1, "return_documents": False}
        (only,) = (await api.post("/rerank", short)).json()["results"]
        assert set(only) == {"index", "relevance_score"}
        more = (await api.post("/rerank", {"query": "abc", "documents": documents, "top_n": 99})).json()
        assert len(more["results"]) == 4


async def test_classify_where_the_model_has_a_head(serve) -> None:
    def head(message: Generate) -> Iterable[Output]:
        yield Output(rid=message.rid, embedding=[0.0, 2.0, 1.0], finish_reason="stop")

    card = {"generates": False, "labels": ("bad", "good", "ugly")}
    async with serve(head, card=card) as api:
        (row,) = (await api.post("/classify", {"input": "good"})).json()["data"]
        assert (row["label"], row["num_classes"]) == ("good", 3)
        assert sum(row["probs"]) == pytest.approx(1.0)
        native = (await api.post("/classify", {"text": ["good", "bad"]})).json()
        assert [entry["embedding"] for entry in native] == [[0.0, 2.0, 1.0]] * 2
    async with serve(card={"architectures": ("LlamaForCausalLM",)}) as api:
        response = await api.post("/classify", {"input": "good"})
        assert response.status_code == 501
        assert "LlamaForCausalLM" in response.json()["error"]["message"]


async def test_encode_is_the_native_embedding(serve) -> None:
    async with serve(card=CARD) as api:
        ids = api.tokenizer.encode("abc", False)
        one = (await api.post("/encode", {"text": "abc"})).json()
        assert one["embedding"] == (await api.post("/encode", {"input_ids": ids})).json()["embedding"]
        assert one["meta_info"]["prompt_tokens"] == 3
        two = (await api.post("/encode", {"text": ["abc", "d"], "rid": ["x", "y"]})).json()
        assert len(two) == 2


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/score", {"query": "x", "items": ["y"]}, "label_token_ids"),
    ("/v1/score", {"query": "x", "items": ["y"], "label_token_ids": [10**7]}, "label_token_ids"),
    ("/v1/score", {"query": "x", "items": [], "label_token_ids": [1]}, "items"),
    ("/v1/score", {"query": "", "items": [" "], "label_token_ids": [1]}, "items"),
    ("/v1/score", {"query": "x", "items": [[1]], "label_token_ids": [1]}, "items"),
    ("/v1/score", {"query": [1], "items": ["x"], "label_token_ids": [1]}, "items"),
    ("/v1/score", {"query": [1], "items": [[]], "label_token_ids": [1]}, "items"),
    ("/v1/score", {"query": [-1], "items": [[1]], "label_token_ids": [1]}, "query"),
    ("/v1/score", {"text_1": ["a", "b", "c"], "text_2": ["a", "b"]}, "text_1"),
    ("/v1/score", {"text_1": "a", "text_2": ""}, "text_2"),
    ("/rerank", {"documents": ["a"]}, "query"),
    ("/rerank", {"query": "a", "documents": []}, "documents"),
    ("/rerank", {"query": "a", "documents": ["a", 5]}, "documents[1]"),
    ("/rerank", {"query": "a", "documents": ["a", ""]}, "documents[1]"),
    ("/rerank", {"query": "a", "documents": ["a"], "top_n": 0}, "top_n"),
    ("/rerank", {"query": "a", "documents": ["a"], "rank_fields": ["x"]}, "rank_fields"),
    ("/encode", {}, "text"),
    ("/encode", {"text": "a", "input_ids": [1]}, "text"),
    ("/encode", {"text": [""]}, "text[0]"),
    ("/encode", {"text": ["a", "b"], "rid": ["x"]}, "rid"),
]


async def test_refusals(serve) -> None:
    async with serve(card=CARD) as api:
        for path, body, name in BAD:
            response = await api.post(path, body)
            assert response.status_code == 400, (path, body, response.text)
            assert name in response.json()["error"]["message"]
    async with serve() as api:
        for path, body in (("/rerank", {"query": "a", "documents": ["a"]}), ("/encode", {"text": "a"})):
            response = await api.post(path, body)
            assert response.status_code == 400
            assert "--is-embedding" in response.json()["error"]["message"]
