"""Log-probabilities of many positions, as prompts need them."""

from __future__ import annotations

import json

import pytest
import torch

from sgl_torch.sampling import LOWEST_LOGPROB, score_rows
from sgl_torch.sampling.logprobs import best


def test_positions() -> None:
    logits = torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
    tokens = torch.tensor([0, 8, 3, 3])
    row = score_rows(logits, tokens, top=3, token_ids=(5, 2))
    expected = logits.log_softmax(-1)
    for i in range(4):
        assert row.token_logprobs[i] == pytest.approx(float(expected[i, tokens[i]]))
        values, ids = expected[i].topk(3)
        assert [token for token, _ in row.top[i]] == ids.tolist()
        assert [value for _, value in row.top[i]] == pytest.approx(values.tolist())
        assert [token for token, _ in row.wanted[i]] == [5, 2]


def test_nothing_asked_nothing_given() -> None:
    row = score_rows(torch.zeros(2, 3), torch.tensor([0, 1]))
    assert (row.top, row.wanted, len(row.token_logprobs)) == ([], [], 2)


def test_equals_come_by_id_and_more_than_there_are_is_all() -> None:
    scores = torch.tensor([0.0, 2.0, 1.0, 2.0, 1.0, 1.0])
    assert [token for token, _ in best(scores, 4)] == [1, 3, 2, 4]
    assert len(best(scores, 100)) == 6


@pytest.mark.field_case("5")
def test_minus_infinity_and_half_precision() -> None:
    row = score_rows(
        torch.tensor([[0.0, float("-inf")], [float("-inf"), float("-inf")]]).half(), torch.tensor([1, 0]), top=2
    )
    assert row.token_logprobs == [LOWEST_LOGPROB, LOWEST_LOGPROB]
    json.dumps(row.top, allow_nan=False)
