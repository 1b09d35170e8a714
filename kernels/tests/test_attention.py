"""Paged attention against a dense numpy oracle: ragged batches, cache dtypes, windows, soft-cap, sinks, and equal bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sgl_ops
from sgl_ops.attention import paged_attention
from sgl_ops.fused import rope_kv

TORCH = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float8_e4m3fn": torch.float8_e4m3fn,
}

U = 2.0**-8
"""The largest relative error of rounding to bf16 (8 significant bits)."""
TILES = sgl_ops.bf16_tiles()
needs_tiles = pytest.mark.skipif(not TILES, reason="no bf16 tiles in this instruction set")


class Case:
    """A ragged batch with its paged cache, filled through the library's own KV write."""

    def __init__(
        self, seed: int, lens: list[tuple[int, int]], kv_heads: int, group: int, dim: int, page: int, kv_dtype: str
    ) -> None:
        rng = np.random.default_rng(seed)
        self.kv_heads, self.heads, self.dim, self.page, self.kv_dtype = kv_heads, kv_heads * group, dim, page, kv_dtype
        self.contexts = np.array([c for c, _ in lens], dtype=np.int32)
        self.queries = np.array([q for _, q in lens], dtype=np.int32)
        self.tokens = int(self.queries.sum())
        pages_each = [-(-(c + q) // page) for c, q in lens]
        pages = rng.permutation(sum(pages_each) + 3).astype(np.int32)
        self.table = np.zeros((len(lens), max(pages_each)), dtype=np.int32)
        slots = (len(pages)) * page
        self.q = rng.standard_normal((self.tokens, self.heads, dim), dtype=np.float32)
        self.keys: list[np.ndarray] = []
        self.values: list[np.ndarray] = []
        itemsize = 4 if kv_dtype == "float32" else 2 if kv_dtype.endswith("16") else 1
        self.k_cache = np.full(slots * kv_heads * dim * itemsize, 0x7F, dtype=np.uint8)
        self.v_cache = self.k_cache.copy()
        if kv_dtype == "int8":
            self.k_scale, self.v_scale = (np.full((slots, kv_heads), np.nan, dtype=np.float32) for _ in range(2))
        else:
            self.k_scale, self.v_scale = np.array([0.5], np.float32), np.array([0.25], np.float32)
        used = 0
        for r, n in enumerate(pages_each):
            self.table[r, :n] = pages[used : used + n]
            used += n
            total = int(self.contexts[r] + self.queries[r])
            k, v = (rng.standard_normal((total, kv_heads, dim), dtype=np.float32) for _ in range(2))
            at = np.array([self.table[r, i // page] * page + i % page for i in range(total)], dtype=np.int64)
            rope_kv(
                None, k, v, tokens=total, heads=self.heads, kv_heads=kv_heads, head_dim=dim, slots=at, k_cache=self.k_cache,
                v_cache=self.v_cache, kv_dtype=kv_dtype, k_scale=self.k_scale, v_scale=self.v_scale,
            )  # fmt: skip
            self.keys.append(self.stored(k, self.k_cache, self.k_scale, at))
            self.values.append(self.stored(v, self.v_cache, self.v_scale, at))

    def stored(self, x: np.ndarray, cache: np.ndarray, scale: np.ndarray, at: np.ndarray) -> np.ndarray:
        """What the cache holds of x; int8 is read back (ties may round either way) and checked to lie within half a step."""
        if self.kv_dtype == "int8":
            held = cache.view(np.int8).reshape(-1, self.kv_heads, self.dim)[at] * scale[at][..., None]
            assert (np.abs(held - x) <= 0.501 * scale[at][..., None]).all()
            return held
        if self.kv_dtype == "float8_e4m3fn":
            return torch.from_numpy(x / scale[0]).to(torch.float8_e4m3fn).float().numpy() * scale[0]
        return torch.from_numpy(x).to(TORCH[self.kv_dtype]).float().numpy()

    def run(self, **options: Any) -> np.ndarray:
        out = np.full((self.tokens, self.heads, self.dim), np.nan, dtype=np.float32)
        paged_attention(
            self.q, out, self.k_cache, self.v_cache, self.table, self.queries, self.contexts, tokens=self.tokens,
            requests=len(self.queries), heads=self.heads, kv_heads=self.kv_heads, head_dim=self.dim, page_size=self.page,
            pages_stride=self.table.shape[1], scale=self.dim**-0.5, kv_dtype=self.kv_dtype, k_scale=self.k_scale,
            v_scale=self.v_scale, **options,
        )  # fmt: skip
        return out

    def oracle(
        self, window: int = 0, softcap: float = 0.0, sinks: np.ndarray | None = None, causal: bool = True
    ) -> np.ndarray:
        out, t = np.empty((self.tokens, self.heads, self.dim)), 0
        for r, n in enumerate(self.queries):
            keys, values = self.keys[r].astype(np.float64), self.values[r].astype(np.float64)
            for i in range(n):
                pos = int(self.contexts[r]) + i if causal else len(keys) - 1
                first = max(0, pos - window + 1) if window else 0
                for h in range(self.heads):
                    g = h // (self.heads // self.kv_heads)
                    s = keys[first : pos + 1, g] @ self.q[t, h].astype(np.float64) * self.dim**-0.5
                    s = softcap * np.tanh(s / softcap) if softcap else s
                    top = max(s.max(), sinks[h] if sinks is not None else -np.inf)
                    p = np.exp(s - top)
                    total = p.sum() + (np.exp(sinks[h] - top) if sinks is not None else 0)
                    out[t, h] = p @ values[first : pos + 1, g] / total
                t += 1
        return out


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    lens=st.lists(st.tuples(st.integers(0, 300), st.sampled_from([1, 1, 2, 7, 40])), min_size=1, max_size=4),
    heads=st.sampled_from([(1, 1), (3, 3), (2, 4), (1, 7)]),
    dim=st.sampled_from([16, 64, 80]),
    page=st.sampled_from([1, 16, 24]),
    kv_dtype=st.sampled_from(["float32", "float16", "bfloat16", "float8_e4m3fn", "int8"]),
    window=st.sampled_from([0, 0, 5, 100]),
    softcap=st.sampled_from([0.0, 20.0]),
    sinks=st.booleans(),
)
def test_against_the_dense_oracle(
    seed: int,
    lens: list[tuple[int, int]],
    heads: tuple[int, int],
    dim: int,
    page: int,
    kv_dtype: str,
    window: int,
    softcap: float,
    sinks: bool,
) -> None:
    case = Case(seed, lens, *heads, dim, page, kv_dtype)
    sink = np.random.default_rng(seed).standard_normal(case.heads).astype(np.float32) if sinks else None
    got = case.run(window=window, softcap=softcap, sinks=sink)
    np.testing.assert_allclose(got, case.oracle(window, softcap, sink), rtol=2e-4, atol=2e-5)


def test_bidirectional() -> None:
    case = Case(5, [(0, 33), (10, 5)], 2, 2, 32, 16, "float32")
    np.testing.assert_allclose(case.run(causal=False), case.oracle(causal=False), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("kv_dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("window", [0, 300])
def test_equal_bits_whatever_the_chunks_and_threads(kv_dtype: str, window: int) -> None:
    whole = Case(11, [(0, 700)], 2, 3, 32, 16, kv_dtype)
    full = whole.run(window=window)
    for first, count in ((0, 1), (699, 1), (650, 50), (255, 2), (100, 411)):
        part = Case(11, [(0, 700)], 2, 3, 32, 16, kv_dtype)
        part.contexts, part.queries, part.tokens = np.array([first], np.int32), np.array([count], np.int32), count
        part.q = np.ascontiguousarray(whole.q[first : first + count])
        for threads in (1, 3):
            sgl_ops.set_threads(threads)
            np.testing.assert_array_equal(part.run(window=window), full[first : first + count])
    sgl_ops.set_threads()


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "int8"])
@pytest.mark.parametrize("threads", [1, 3])
def test_shared_prefixes_read_once_give_the_same_bits(kv_dtype: str, threads: int) -> None:
    """Rows 0, 2, 3 share 600 keys, rows 1 and 4 share 300; row 5 stands alone and row 6 is a chunk on the first prefix."""
    lens = [(700, 1), (400, 1), (650, 1), (612, 1), (330, 1), (900, 1), (600, 9)]
    case = Case(3, lens, 2, 3, 32, 12, kv_dtype)
    case.table[2, : 600 // 12] = case.table[3, : 600 // 12] = case.table[6, : 600 // 12] = case.table[0, : 600 // 12]
    case.table[4, : 300 // 12] = case.table[1, : 300 // 12]
    sgl_ops.set_threads(threads)
    together = case.run()
    starts = np.concatenate([[0], np.cumsum(case.queries)])
    table, queries, contexts, q = case.table, case.queries, case.contexts, case.q
    for r in range(len(lens)):  # each alone: nothing to share
        case.table, case.queries, case.contexts = (
            np.ascontiguousarray(table[r : r + 1]),
            queries[r : r + 1],
            contexts[r : r + 1],
        )
        case.q, case.tokens = np.ascontiguousarray(q[starts[r] : starts[r + 1]]), int(queries[r])
        np.testing.assert_array_equal(case.run(), together[starts[r] : starts[r + 1]])
    sgl_ops.set_threads()


def test_bad_shapes_are_refused() -> None:
    case = Case(1, [(0, 1)], 1, 1, 16, 1, "float32")
    case.heads, case.kv_heads = 3, 2
    with pytest.raises(sgl_ops.OpsError, match="evenly"):
        case.run()
    case.heads, case.kv_heads, case.dim = 1, 1, 24
    with pytest.raises(sgl_ops.OpsError, match="multiples of 16"):
        case.run()


@needs_tiles
@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    lens=st.lists(st.tuples(st.integers(0, 300), st.sampled_from([1, 1, 2, 7, 40, 90])), min_size=1, max_size=4),
    heads=st.sampled_from([(1, 1), (3, 3), (2, 4), (1, 7)]),
    dim=st.sampled_from([16, 64, 80]),
    page=st.sampled_from([1, 16, 24]),
    kv_dtype=st.sampled_from(["float32", "float16", "bfloat16", "float8_e4m3fn", "int8"]),
    window=st.sampled_from([0, 0, 5, 100]),
    softcap=st.sampled_from([0.0, 20.0]),
    sinks=st.booleans(),
)
def test_bf16_against_the_dense_oracle(
    seed: int,
    lens: list[tuple[int, int]],
    heads: tuple[int, int],
    dim: int,
    page: int,
    kv_dtype: str,
    window: int,
    softcap: float,
    sinks: bool,
) -> None:
    """A score is off by at most (2 u + u^2) sum |q k| scale =: s, so a weight by a factor e^(2 s) at most (its own score and the
    denominator's), and by u more for its own rounding; a value by u. With the largest s and |v| of the case:
    |got - want| <= (e^(2 s) (1 + u)^2 - 1) max |v|."""
    case = Case(seed, lens, *heads, dim, page, kv_dtype)
    sink = np.random.default_rng(seed).standard_normal(case.heads).astype(np.float32) if sinks else None
    got, want = case.run(window=window, softcap=softcap, sinks=sink, bf16_from=0), case.oracle(window, softcap, sink)
    largest_key = max(float(np.sqrt((k.astype(np.float64) ** 2).sum(-1)).max()) for k in case.keys)
    largest_query = float(np.sqrt((case.q.astype(np.float64) ** 2).sum(-1)).max())
    s = (2 * U + U * U) * largest_query * largest_key * case.dim**-0.5
    largest_value = max(float(np.abs(v).max()) for v in case.values)
    assert (np.abs(got - want) <= np.expm1(2 * s + 2 * U + 1e-4) * largest_value).all()
    assert np.sqrt(np.mean((got - want) ** 2)) <= 2 * U * np.sqrt(np.mean(want**2))


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "int8"])
@pytest.mark.parametrize("window", [0, 300])
def test_bf16_gives_equal_bits_whatever_the_chunks_and_threads(kv_dtype: str, window: int) -> None:
    whole = Case(11, [(0, 700)], 2, 3, 32, 16, kv_dtype)
    full = whole.run(window=window, bf16_from=0)
    assert (full != whole.run(window=window)).any() == TILES
    for first, count in ((0, 1), (699, 1), (650, 50), (255, 2), (100, 411)):
        part = Case(11, [(0, 700)], 2, 3, 32, 16, kv_dtype)
        part.contexts, part.queries, part.tokens = np.array([first], np.int32), np.array([count], np.int32), count
        part.q = np.ascontiguousarray(whole.q[first : first + count])
        for threads in (1, 3):
            sgl_ops.set_threads(threads)
            np.testing.assert_array_equal(part.run(window=window, bf16_from=0), full[first : first + count])
    sgl_ops.set_threads()


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "int8"])
def test_decode_rows_beside_prompt_chunks(kv_dtype: str) -> None:
    """Requests 0 and 1 share a prefix and decode; 2 and 3 are chunks of prompts on the same prefix, one of a single token. Over a
    bf16 cache all of them are computed in tiles."""
    case = Case(3, [(600, 1), (550, 1), (530, 1), (512, 40)], 2, 3, 32, 16, kv_dtype)
    case.table[1:, :32] = case.table[0, :32]
    plain, tiles, mixed = case.run(), case.run(bf16_from=0), case.run(bf16_from=2)
    np.testing.assert_array_equal(mixed[:2], tiles[:2] if kv_dtype == "bfloat16" else plain[:2])
    np.testing.assert_array_equal(mixed[2:], tiles[2:])


@needs_tiles
@pytest.mark.parametrize("heads", [(3, 3), (5, 4), (2, 9)])
def test_few_rows_read_keys_wherever_they_lie(heads: tuple[int, int]) -> None:
    """Decode rows over slots that rise, fall, lie apart or have no order, alone and with rows enough for the panels: the same bits."""
    pages, found = np.arange(900), []
    for table in (pages[:300], pages[299::-1], pages[::3], np.random.default_rng(0).permutation(900)[:300]):
        case = Case(7, [(289, 11)], *heads, 64, 1, "bfloat16")
        k, v = (cache.view(np.uint16).reshape(-1, heads[0] * 64) for cache in (case.k_cache, case.v_cache))
        held = [cache[case.table[0]].copy() for cache in (k, v)]
        case.k_cache, case.v_cache = (
            np.full((900, heads[0] * 64), 0x7FFF, np.uint16) for _ in held
        )  # NaN where no key lies
        case.k_cache[table], case.v_cache[table] = held
        case.table = np.ascontiguousarray(table[None], dtype=np.int32)
        found.append(case.run(bf16_from=0))  # 11 tokens: panels
        for count in (1, 2):
            case.contexts, case.queries, case.tokens = (
                np.array([300 - count], np.int32),
                np.array([count], np.int32),
                count,
            )
            case.q, whole = np.ascontiguousarray(case.q[-count:]), case.q
            np.testing.assert_array_equal(case.run(bf16_from=1), found[-1][-count:])
            case.q = whole
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
