"""Sampling against sorted oracles: kept sets, frequencies, seeds, ties; masks and log-sum-exp."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_ops.sampling import argmax, logsumexp, mask_logits, sample


def logits_of(seed: int, rows: int, vocab: int, spread: float = 3.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((rows, vocab)) * spread).astype(np.float32)


def kept(row: np.ndarray, temperature: float, top_k: int, top_p: float, min_p: float) -> np.ndarray:
    """The tokens that may be drawn, and their probabilities, from a full sort."""
    p = torch.softmax(torch.from_numpy(row.astype(np.float64)) / temperature, 0).numpy()
    order = np.argsort(-p, kind="stable")
    before = np.cumsum(p[order]) - p[order]
    keep = (before <= top_p) & (np.arange(len(p)) < (top_k if top_k > 0 else len(p))) & (p[order] >= min_p * p.max())
    result = np.zeros_like(p)
    result[order[keep]] = p[order[keep]]
    return result / result.sum()


def draws(row: np.ndarray, count: int, **options: float) -> np.ndarray:
    rows = np.ascontiguousarray(np.broadcast_to(row, (count, len(row))))
    out = np.empty(count, np.int32)
    full = lambda key, dtype, default: np.full(count, options.get(key, default), dtype)  # noqa: E731
    sample(
        rows, out, rows=count, vocab=len(row), temperature=full("temperature", np.float32, 1), top_k=full("top_k", np.int32, 0),
        top_p=full("top_p", np.float32, 1), min_p=full("min_p", np.float32, 0), seeds=np.full(count, 42, np.int64),
        positions=np.arange(count, dtype=np.int64),
    )  # fmt: skip
    return out


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    vocab=st.integers(2, 60),
    temperature=st.sampled_from([0.3, 1.0, 2.5]),
    top_k=st.sampled_from([0, 1, 3, 20]),
    top_p=st.sampled_from([1.0, 0.9, 0.4, 0.01]),
    min_p=st.sampled_from([0.0, 0.1]),
)
def test_frequencies_match_the_sorted_definition(
    seed: int, vocab: int, temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    row = logits_of(seed, 1, vocab)[0]
    p = kept(row, temperature, top_k, top_p, min_p)
    got = draws(row, 3000, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    seen = np.bincount(got, minlength=vocab)
    assert not seen[p == 0].any()
    assert np.abs(seen / 3000 - p).max() < 0.05


def test_large_vocabulary_keeps_exactly_the_top() -> None:
    row = logits_of(9, 1, 49152)[0]
    for top_k, top_p in ((50, 1.0), (0, 0.8), (1000, 0.95)):
        p = kept(row, 1.0, top_k, top_p, 0.0)
        got = draws(row, 400, top_k=top_k, top_p=top_p)
        assert (p[got] > 0).all()
    top3 = set(np.argsort(-row)[:3])
    assert set(draws(row, 300, top_k=3)) == top3


def test_ties_go_to_the_lower_index() -> None:
    row = np.zeros(100, np.float32)
    assert set(draws(row, 300, top_k=4)) == {0, 1, 2, 3}
    out = np.empty(1, np.int32)
    argmax(row[None], out, rows=1, vocab=100)
    assert out[0] == 0


def test_a_draw_depends_on_seed_and_position_only() -> None:
    logits = logits_of(3, 8, 500)
    seeds, positions = np.arange(8, dtype=np.int64) * 7, np.arange(8, dtype=np.int64)
    out, one = np.empty(8, np.int32), np.empty(1, np.int32)
    sample(logits, out, rows=8, vocab=500, seeds=seeds, positions=positions)
    for r in range(8):
        sample(logits[r], one, rows=1, vocab=500, seeds=seeds[r:], positions=positions[r:])
        assert one[0] == out[r]
    other = np.empty(8, np.int32)
    sample(logits, other, rows=8, vocab=500, seeds=seeds + 1, positions=positions)
    assert (other != out).any()


def test_greedy_rows_and_hopeless_rows() -> None:
    logits = logits_of(4, 3, 300)
    logits[2] = -np.inf
    out = np.empty(3, np.int32)
    sample(logits, out, rows=3, vocab=300, temperature=np.array([0, 1e-9, 1], np.float32))
    assert list(out[:2]) == list(logits[:2].argmax(1))
    assert 0 <= out[2] < 300


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(1, 5), vocab=st.integers(1, 3000), seed=st.integers(0, 2**31))
def test_argmax_and_logsumexp(rows: int, vocab: int, seed: int) -> None:
    logits = logits_of(seed, rows, vocab)
    logits[0, vocab // 2] = np.nan if vocab > 1 else 0
    out = np.empty(rows, np.int32)
    argmax(logits, out, rows=rows, vocab=vocab)
    assert list(out) == list(np.nanargmax(logits, 1))
    logits[0, vocab // 2] = -np.inf if vocab > 1 else 0
    lse = np.empty(rows, np.float32)
    logsumexp(logits, lse, rows=rows, vocab=vocab, inverse_temperature=0.5)
    want = torch.logsumexp(torch.from_numpy(logits.astype(np.float64)) * 0.5, 1).numpy()
    np.testing.assert_allclose(lse, want, rtol=1e-5, atol=1e-5)


def test_mask() -> None:
    logits = logits_of(1, 3, 70)
    allowed = np.random.default_rng(0).random((2, 96)) < 0.5
    masks = np.packbits(allowed, axis=1, bitorder="little").view(np.int32)
    want = logits.copy()
    want[2][~allowed[0, :70]] = -np.inf
    want[0][~allowed[1, :70]] = -np.inf
    mask_logits(logits, np.ascontiguousarray(masks), count=2, vocab=70, words=3, rows=np.array([2, 0], np.int32))
    np.testing.assert_array_equal(logits, want)
