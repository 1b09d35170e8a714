"""Which tokens each penalty counts, and how much it takes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_core.api.sampling import SamplingParams
from sgl_torch.sampling.penalties import Penalties

VOCAB = 12
ids = st.lists(st.integers(0, VOCAB - 1), max_size=10)
weight = st.sampled_from([0.0, 0.5, -0.7])
request = st.tuples(weight, weight, st.sampled_from([1.0, 1.5, 0.8]), ids, ids)


def by_hand(
    logits: np.ndarray, presence: float, frequency: float, repetition: float, prompt: list[int], output: list[int]
) -> np.ndarray:
    result = logits.copy()
    for token in range(VOCAB):
        if token in prompt or token in output:
            result[token] = result[token] / repetition if result[token] > 0 else result[token] * repetition
        result[token] -= frequency * output.count(token) + presence * (token in output)
    return result


@pytest.mark.field_case("148")
@given(st.lists(request, min_size=1, max_size=6), ids)
@settings(deadline=None, max_examples=80)
def test_equal_to_counting_by_hand(
    requests: list[tuple[float, float, float, list[int], list[int]]], later: list[int]
) -> None:
    penalties = Penalties(VOCAB, torch.device("cpu"))
    slots = np.arange(len(requests))
    for slot, (presence, frequency, repetition, prompt, output) in enumerate(requests):
        sampling = SamplingParams(presence_penalty=presence, frequency_penalty=frequency, repetition_penalty=repetition)
        penalties.admit(slot, sampling, prompt, output)
    for token in later:
        penalties.count(slots, torch.full((len(requests),), token))
    logits = torch.randn(len(requests), VOCAB, generator=torch.Generator().manual_seed(1))
    expected = [
        by_hand(line.numpy(), *values[:3], values[3], values[4] + later)
        for line, values in zip(logits, requests, strict=True)
    ]
    penalties.apply(logits, slots)
    np.testing.assert_allclose(logits.numpy(), np.stack(expected), rtol=1e-5, atol=1e-6)


def test_only_wanting_requests_take_memory_and_entries_are_cleared() -> None:
    penalties = Penalties(VOCAB, torch.device("cpu"))
    for slot in range(50):
        penalties.admit(slot, SamplingParams(), [1], [2])
    assert not penalties
    for round_ in range(30):
        penalties.admit(round_, SamplingParams(frequency_penalty=1.0), [1], [round_ % VOCAB])
        penalties.free(round_)
        penalties.free(round_)
    penalties.admit(3, SamplingParams(frequency_penalty=1.0), [], [])
    assert 3 in penalties
    logits = torch.zeros(1, VOCAB)
    penalties.apply(logits, np.array([3]))
    assert torch.equal(logits, torch.zeros(1, VOCAB))
    assert len(penalties._weights) == 4


def test_ids_beyond_the_vocabulary_count_for_nothing() -> None:
    penalties = Penalties(VOCAB, torch.device("cpu"))
    penalties.admit(0, SamplingParams(repetition_penalty=2.0), [VOCAB + 5, -1, 3], [VOCAB])
    logits = torch.ones(1, VOCAB)
    penalties.apply(logits, np.array([0]))
    assert logits[0].tolist() == [0.5 if token == 3 else 1.0 for token in range(VOCAB)]
