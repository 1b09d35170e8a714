"""bf16 tiles: linear layers and attention against float64 within bf16's rounding, and equal bits whatever the batch.

u = 2^-8 is the largest relative error of rounding to bf16 (8 significant bits). x and w are rounded once each and summed in f32, so
|got - sum(x w)| <= (2 u + u^2 + n 2^-23) sum |x w|. Where the instruction set has no bf16 tiles, nothing may change.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_attention import Case
from test_linear import GGUF, raw_gguf

import sgl_ops
from sgl_ops.linear import Packed, pack, run_many

U = 2.0**-8
TILES = sgl_ops.bf16_tiles()
FLOATS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F8_E4M3": torch.float8_e4m3fn}


def rounded(x: np.ndarray, *, away: bool = False) -> np.ndarray:
    """x in bf16, ties to even or away from zero."""
    wide = np.ascontiguousarray(x, dtype=np.float32)
    if away:
        return ((wide.view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
    return torch.from_numpy(wide).to(torch.bfloat16).double().numpy()


def within(got: np.ndarray, x: np.ndarray, packed: Packed, added: np.ndarray | float = 0.0) -> None:
    """Inside the bound above; and no further from the product of the rounded numbers than f32 sums are, but for a few weights
    that lie so near to a tie that f32 decides where they go."""
    weight = packed.dequantize().astype(np.float64)
    size = np.abs(x).astype(np.float64) @ np.abs(weight).T + np.abs(added)
    bound = (2 * U + U * U + x.shape[1] * 2.0**-23) * size + 1e-6
    assert (np.abs(got - added - x.astype(np.float64) @ weight.T) <= bound).all()
    exact = rounded(x) @ rounded(weight, away=packed.format not in FLOATS).T + added
    ties = 4 * 2 * U * np.abs(x).max() * np.abs(weight).max()
    assert (np.abs(got - exact) <= 4e-6 * size + ties).all()


def packed_float(fmt: str, rng: np.random.Generator, n_out: int, n_in: int) -> Packed:
    weight = torch.from_numpy(rng.standard_normal((n_out, n_in), dtype=np.float32)).to(FLOATS[fmt]).contiguous()
    groups = -(-n_in // 64)
    if fmt != "F8_E4M3" or groups == 1:
        return pack(fmt, weight.data_ptr(), n_out, n_in)
    scales = rng.uniform(0.5, 2, (n_out, groups)).astype(np.float32)
    return pack(fmt, weight.data_ptr(), n_out, n_in, scales=scales, group=64)


@pytest.mark.skipif(not TILES, reason="no bf16 tiles in this instruction set")
@settings(max_examples=60, deadline=None)
@given(
    fmt=st.sampled_from([*sorted(GGUF), *FLOATS]),
    n_out=st.integers(1, 90),
    blocks=st.integers(1, 5),
    odd=st.integers(0, 31),
    rows=st.sampled_from([1, 2, 15, 16, 17, 32, 33, 70, 300]),
    seed=st.integers(0, 2**31),
    bias=st.booleans(),
    accumulate=st.booleans(),
)
def test_every_format(
    fmt: str, n_out: int, blocks: int, odd: int, rows: int, seed: int, bias: bool, accumulate: bool
) -> None:
    rng = np.random.default_rng(seed)
    if fmt in FLOATS:
        packed = packed_float(fmt, rng, n_out, blocks * 32 - odd)
    else:
        packed = pack(fmt, raw_gguf(rng, fmt, n_out, blocks), n_out, blocks * GGUF[fmt][0])
    x = rng.standard_normal((rows, packed.n_in), dtype=np.float32)
    start = rng.standard_normal((rows, n_out), dtype=np.float32)
    b = rng.standard_normal(n_out, dtype=np.float32) if bias else None
    out = start.copy()
    packed.run(x, out, b, accumulate=accumulate, bf16_from=0)
    within(out, x, packed, (b if bias else 0.0) + (start if accumulate else np.zeros_like(start)))


@pytest.mark.skipif(not TILES, reason="no bf16 tiles in this instruction set")
@pytest.mark.parametrize("group", [0, 32, 128])
def test_int8_channels_and_int4_groups(group: int) -> None:
    rng = np.random.default_rng(4)
    n_out, n_in, rows = 37, 200, 19
    x, out = rng.standard_normal((rows, n_in), dtype=np.float32), np.empty((rows, n_out), np.float32)
    eight = pack(
        "INT8_CHANNEL",
        rng.integers(-128, 128, (n_out, n_in), dtype=np.int8),
        n_out,
        n_in,
        scales=rng.uniform(0.001, 0.02, n_out).astype(np.float32),
    )
    groups = -(-n_in // group) if group else 1
    scales, zeros = (
        rng.uniform(0.001, 0.02, (n_out, groups)).astype(np.float32),
        rng.integers(0, 16, (n_out, groups)).astype(np.float32),
    )
    four = pack(
        "INT4_GROUP",
        rng.integers(0, 16, (n_out, n_in), dtype=np.uint8),
        n_out,
        n_in,
        scales=scales,
        zeros=zeros,
        group=group,
    )
    for packed in (eight, four):
        packed.run(x, out, bf16_from=0)
        within(out, x, packed)


@pytest.mark.parametrize("fmt", ["Q4_1", "Q6_K", "Q8_0", "BF16"])
def test_a_row_depends_on_its_own_mode_alone(fmt: str) -> None:
    """Rows before bf16_from have the bits of a call without it, rows behind those of a call with nothing else, in any batch."""
    rng = np.random.default_rng(7)
    n_out, blocks = 80, 6 if fmt == "BF16" or GGUF[fmt][0] == 32 else 2
    packed = (
        packed_float(fmt, rng, n_out, 192)
        if fmt == "BF16"
        else pack(fmt, raw_gguf(rng, fmt, n_out, blocks), n_out, blocks * GGUF[fmt][0])
    )
    x = rng.standard_normal((700, packed.n_in), dtype=np.float32)
    plain, tiles, mixed = (np.empty((700, n_out), np.float32) for _ in range(3))
    packed.run(x, plain)
    packed.run(x, tiles, bf16_from=0)
    assert (tiles != plain).any() == TILES
    for threads in (1, 3):
        sgl_ops.set_threads(threads)
        for first in (0, 1, 16, 33, 699, 700):
            packed.run(x, mixed, bf16_from=first)
            np.testing.assert_array_equal(mixed[:first], plain[:first])
            np.testing.assert_array_equal(mixed[first:], tiles[first:])
        for first, count in ((0, 1), (5, 2), (17, 40), (100, 600)):
            part = np.empty((count, n_out), np.float32)
            packed.run(x[first : first + count], part, bf16_from=0)
            np.testing.assert_array_equal(part, tiles[first : first + count])
    sgl_ops.set_threads()
    packed.run(x, mixed, exact=True, bf16_from=0)
    packed.run(x, plain, exact=True)
    np.testing.assert_array_equal(mixed, plain)


def test_many_matrices_and_strides() -> None:
    rng = np.random.default_rng(5)
    packs = [
        pack("Q4_1", raw_gguf(rng, "Q4_1", 48, 3), 48, 96),
        pack("Q8_0", raw_gguf(rng, "Q8_0", 16, 3), 16, 96),
        packed_float("F32", rng, 7, 96),
    ]
    x, out = rng.standard_normal((40, 128), dtype=np.float32), np.full((40, 80), 77, dtype=np.float32)
    run_many(packs, x, [out[:, 0:], out[:, 48:], out[:, 64:]], rows=40, ldx=128, ldo=[80, 80, 80], bf16_from=9)
    for packed, at in zip(packs, (0, 48, 64), strict=True):
        single = np.empty((40, packed.n_out), np.float32)
        packed.run(np.ascontiguousarray(x[:, :96]), single, bf16_from=9)
        np.testing.assert_array_equal(out[:, at : at + packed.n_out], single)
    assert (out[:, 71:] == 77).all()
    with pytest.raises(sgl_ops.OpsError, match="bf16 from row -1"):
        packs[0].run(x, out, rows=1, bf16_from=-1)


@pytest.mark.skipif(not TILES, reason="no bf16 tiles in this instruction set")
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
def test_attention_within_bf16(
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
def test_attention_gives_equal_bits_whatever_the_chunks_and_threads(kv_dtype: str, window: int) -> None:
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


def test_decode_rows_beside_prompt_chunks() -> None:
    """Requests 0 and 1 share a prefix and decode; 2 and 3 are chunks of prompts on the same prefix, one of a single token."""
    case = Case(3, [(600, 1), (550, 1), (530, 1), (512, 40)], 2, 3, 32, 16, "bfloat16")
    case.table[1:, :32] = case.table[0, :32]
    plain, tiles, mixed = case.run(), case.run(bf16_from=0), case.run(bf16_from=2)
    np.testing.assert_array_equal(mixed[:2], plain[:2])
    np.testing.assert_array_equal(mixed[2:], tiles[2:])
