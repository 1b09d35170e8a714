"""Limits and draws against a slow reference, and against the distribution itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_torch.sampling import draw as draw_module
from sgl_torch.sampling.draw import Limits, draw, probabilities
from sgl_torch.sampling.randomness import uniforms


def limits(temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0, rows: int = 1) -> Limits:
    return Limits(
        np.full(rows, temperature, np.float32),
        np.full(rows, top_k, np.int64),
        np.full(rows, top_p, np.float32),
        np.full(rows, min_p, np.float32),
    )


def reference(logits: list[float], temperature: float, top_k: int, top_p: float, min_p: float) -> dict[int, float]:
    """The kept tokens and their probabilities, written out token by token."""
    finite = [(value, index) for index, value in enumerate(logits) if value > -math.inf]
    highest = max(value for value, _ in finite)
    weights = {index: math.exp((value - highest) / temperature) for value, index in finite}
    total = sum(weights.values())
    kept: dict[int, float] = {}
    mass = 0.0
    for place, index in enumerate(sorted(weights, key=lambda i: (-weights[i], i))):
        if (top_k and place >= top_k) or mass > top_p * total or weights[index] < min_p:
            break
        kept[index] = weights[index]
        mass += weights[index]
    share = sum(kept.values())
    return {index: weight / share for index, weight in kept.items()}


@given(
    # Whole numbers make ties common; the odd minus infinity is a masked token.
    st.lists(st.one_of(st.integers(-4, 4).map(float), st.just(-math.inf)), min_size=1, max_size=30).filter(
        lambda row: max(row) > -math.inf
    ),
    st.sampled_from([0.5, 1.0, 1.7]),
    st.sampled_from([0, 1, 2, 5, 29, 1000]),
    # No cut falls exactly on a sum of these weights, where rounding would decide.
    st.sampled_from([0.013, 0.4567, 0.9123, 1.0]),
    st.sampled_from([0.0, 0.0501, 0.777]),
    st.sampled_from([2, 1024]),
)
@settings(deadline=None, max_examples=150)
def test_limits_equal_the_reference(
    logits: list[float], temperature: float, top_k: int, top_p: float, min_p: float, near: int
) -> None:
    original = draw_module._NEAR
    draw_module._NEAR = near  # also through the second look at the whole order
    try:
        probs = probabilities(torch.tensor([logits]), limits(temperature, top_k, top_p, min_p))[0]
    finally:
        draw_module._NEAR = original
    expected = reference(logits, temperature, top_k, top_p, min_p)
    assert set(probs.nonzero().squeeze(1).tolist()) == {index for index, share in expected.items() if share > 1e-30}
    for index, share in expected.items():
        assert float(probs[index] / probs.sum()) == pytest.approx(share, abs=1e-5)


def test_rows_with_different_limits_together() -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0, 0.0]] * 5)
    mixed = Limits(
        np.array([1, 1, 1, 1, 2], np.float32),
        np.array([0, 2, 0, 0, 3]),
        np.array([1, 1, 0.5, 1, 0.9], np.float32),
        np.array([0, 0, 0, 0.2, 0], np.float32),
    )
    kept = (probabilities(logits, mixed) > 0).sum(-1).tolist()
    assert kept == [4, 2, 1, 2, 3]


def test_top_p_far_beyond_the_near_tokens() -> None:
    probs = probabilities(torch.zeros(2, 5000), limits(top_p=0.5, rows=2))
    # Equal tokens: the mass before the 2501st is just half, which is still allowed.
    assert (probs > 0).sum(-1).tolist() == [2501, 2501]
    assert bool((probs[:, :2501] > 0).all())


CASES = [
    {},
    {"temperature": 0.6},
    {"temperature": 1.8},
    {"top_k": 4},
    {"top_p": 0.7},
    {"min_p": 0.15},
    {"top_k": 6, "top_p": 0.85, "temperature": 1.3},
]


@pytest.mark.parametrize("case", CASES)
def test_draws_follow_the_distribution(case: dict[str, float]) -> None:
    """Chi-square at 0.1 % over 40,000 draws with fixed seeds."""
    logits = [2.0, 1.5, 1.0, 0.5, 0.0, 0.0, -0.5, -1.0, -2.0, -3.0]
    count = 40_000
    probs = probabilities(torch.tensor([logits]), limits(**case)).expand(count, -1)  # type: ignore[arg-type]
    seeds = np.arange(count, dtype=np.uint64)
    drawn = np.bincount(draw(probs, uniforms(seeds, np.zeros(count, np.int64))).numpy(), minlength=len(logits))
    defaults = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    expected = reference(logits, **{**defaults, **case})  # type: ignore[arg-type]
    assert set(np.flatnonzero(drawn)) == set(expected)
    statistic = sum((drawn[index] - count * share) ** 2 / (count * share) for index, share in expected.items())
    freedom = len(expected) - 1
    # Wilson-Hilferty: the 99.9 % point of chi-square.
    limit = freedom * (1 - 2 / (9 * freedom) + 3.09 * math.sqrt(2 / (9 * freedom))) ** 3
    assert statistic < limit


@pytest.mark.parametrize("axis", ["seed", "count"])
def test_uniforms_are_uniform_along_seeds_and_counts(axis: str) -> None:
    n = 50_000
    line = np.arange(n)
    seeds = line.astype(np.uint64) if axis == "seed" else np.full(n, 7, np.uint64)
    counts = line.astype(np.int64) if axis == "count" else np.full(n, 7, np.int64)
    values = uniforms(seeds, counts)
    assert 0.0 <= values.min() < values.max() < 1.0
    histogram = np.bincount((values * 50).astype(int), minlength=50)
    assert ((histogram - n / 50) ** 2 / (n / 50)).sum() < 85.4  # chi-square, 49 degrees of freedom, 99.9 %
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.015
    assert len(np.unique(values)) == n


def test_extreme_uniforms_stay_on_tokens_with_mass() -> None:
    probs = torch.tensor([[0.0, 0.3, 0.0, 1e-7, 0.0], [0.0, 0.0, 0.0, 0.0, 1e30], [0.0] * 5])
    assert draw(probs, np.array([0.0, 0.0, 0.0])).tolist() == [1, 4, 0]
    assert draw(probs, np.array([1 - 2**-53] * 3)).tolist() == [3, 4, 0]


def test_a_row_without_anything_is_zero() -> None:
    assert float(probabilities(torch.full((1, 4), -math.inf), limits(top_p=0.5, top_k=2)).sum()) == 0.0
