"""/v1/embeddings: field cases 40 and 41."""

from __future__ import annotations

import base64

import numpy as np
import pytest

pytestmark = pytest.mark.anyio
CARD = {"embeds": True}


@pytest.mark.field_case("40")
async def test_case_40_formats(serve) -> None:
    async with serve(card=CARD) as api:
        vectors = []
        for format_ in ({}, {"encoding_format": "float"}, {"encoding_format": None}, {"encoding_format": "base64"}):
            answer = (await api.post("/v1/embeddings", {"input": ["Hello my name is"], "model": "m", **format_})).json()
            vector = answer["data"][0]["embedding"]
            if isinstance(vector, str):
                vector = np.frombuffer(base64.b64decode(vector), dtype="<f4").tolist()
            vectors.append(vector)
        assert len(vectors[0]) == 4
        assert all(vector == vectors[0] for vector in vectors)
        response = await api.post("/v1/embeddings", {"input": "x", "encoding_format": "foo"})
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "encoding_format"


@pytest.mark.field_case("41")
async def test_case_41_token_ids(serve) -> None:
    async with serve(card=CARD) as api:
        ids = api.tokenizer.encode("abc", False)
        one = (await api.post("/v1/embeddings", {"input": ids})).json()
        assert (
            one["data"][0]["embedding"]
            == (await api.post("/v1/embeddings", {"input": "abc"})).json()["data"][0]["embedding"]
        )
        two = (await api.post("/v1/embeddings", {"input": [ids[:1], ids[1:]]})).json()
        assert [len(answer["data"]) for answer in (one, two)] == [1, 2]
        assert two["usage"] == {"prompt_tokens": 3, "total_tokens": 3}


async def test_fewer_dimensions_are_a_unit_vector(serve) -> None:
    async with serve(card=CARD) as api:
        answer = (await api.post("/v1/embeddings", {"input": "abc", "dimensions": 2})).json()
        assert np.linalg.norm(answer["data"][0]["embedding"]) == pytest.approx(1, abs=1e-6)
        for dimensions in (0, 5):
            response = await api.post("/v1/embeddings", {"input": "abc", "dimensions": dimensions})
            assert response.status_code == 400
            assert response.json()["error"]["param"] == "dimensions"


async def test_models_that_give_none_say_so(serve) -> None:
    async with serve() as api:
        assert (await api.post("/v1/embeddings", {"input": "abc"})).status_code == 400
