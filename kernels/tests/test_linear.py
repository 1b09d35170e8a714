"""Packed linear layers against gguf's own dequantization and numpy products, for every format and instruction set."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sgl_ops
from sgl_ops.linear import Packed, aligned_empty, pack, packed_bytes, run_many

GGUF = {
    "Q4_0": (32, 18, [0]),
    "Q4_1": (32, 20, [0, 2]),
    "Q5_0": (32, 22, [0]),
    "Q5_1": (32, 24, [0, 2]),
    "Q8_0": (32, 34, [0]),
    "IQ4_NL": (32, 18, [0]),
    "Q2_K": (256, 84, [80, 82]),
    "Q3_K": (256, 110, [108]),
    "Q4_K": (256, 144, [0, 2]),
    "Q5_K": (256, 176, [0, 2]),
    "Q6_K": (256, 210, [208]),
}

FLOATS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F8_E4M3": torch.float8_e4m3fn}
U = 2.0**-8
"""The largest relative error of rounding to bf16 (8 significant bits)."""
TILES = sgl_ops.bf16_tiles()
needs_tiles = pytest.mark.skipif(not TILES, reason="no bf16 tiles in this instruction set")


def raw_gguf(rng: np.random.Generator, fmt: str, n_out: int, blocks: int) -> np.ndarray:
    """Random bytes with sane half-precision scales where the format keeps them."""
    _, size, scales = GGUF[fmt]
    raw = rng.integers(0, 256, (n_out, blocks, size), dtype=np.uint8)
    for at in scales:
        values = rng.uniform(-0.02, 0.02, (n_out, blocks)).astype(np.float16)
        raw[:, :, at : at + 2] = values.view(np.uint8).reshape(n_out, blocks, 2)
    return raw.reshape(n_out, blocks * size)


def reference(fmt: str, raw: np.ndarray) -> np.ndarray:
    return gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[fmt]).astype(np.float32)


def quantize_like_the_kernel(x: np.ndarray) -> np.ndarray:
    """Activations in 8-bit blocks of 32, as f32: x * inverse is rounded once where the machine has a fused multiply-add."""
    n = -(-x.shape[1] // 32) * 32
    padded = np.zeros((x.shape[0], n), dtype=np.float32)
    padded[:, : x.shape[1]] = x
    blocks = padded.reshape(x.shape[0], -1, 32)
    amax = np.abs(blocks).max(-1, keepdims=True)
    inverse = np.divide(np.float32(127), amax, out=np.zeros_like(amax), where=amax > 0)
    scaled = blocks * inverse if sgl_ops.isa() == "generic" else blocks.astype(np.float64) * inverse
    return (np.rint(scaled) * (amax / np.float32(127))).reshape(x.shape[0], n)[:, : x.shape[1]]


def close(got: np.ndarray, weight: np.ndarray, x: np.ndarray) -> None:
    """Within f32 rounding of sums: the bound grows with sum |w x|."""
    want = x.astype(np.float64) @ weight.T.astype(np.float64)
    bound = 4e-6 * (np.abs(x).astype(np.float64) @ np.abs(weight).T.astype(np.float64)) + 1e-6
    worst = np.abs(got - want) - bound
    assert worst.max() <= 0, f"off by {np.abs(got - want).max()} with bound {bound.flat[worst.argmax()]}"


@settings(max_examples=40, deadline=None)
@given(
    fmt=st.sampled_from(sorted(GGUF)),
    n_out=st.integers(1, 50),
    blocks=st.integers(1, 5),
    rows=st.integers(1, 30),
    seed=st.integers(0, 2**31),
    bias=st.booleans(),
    accumulate=st.booleans(),
)
def test_gguf_formats(fmt: str, n_out: int, blocks: int, rows: int, seed: int, bias: bool, accumulate: bool) -> None:
    rng = np.random.default_rng(seed)
    n_in = blocks * GGUF[fmt][0]
    raw = raw_gguf(rng, fmt, n_out, blocks)
    weight = reference(fmt, raw)
    packed = pack(fmt, raw, n_out, n_in)
    np.testing.assert_allclose(packed.dequantize(), weight, rtol=3e-7, atol=1e-7)
    x = rng.standard_normal((rows, n_in), dtype=np.float32)
    start = rng.standard_normal((rows, n_out), dtype=np.float32)
    b = rng.standard_normal(n_out, dtype=np.float32) if bias else None
    shift = (b if bias else np.float32(0)) + (start if accumulate else np.float32(0))
    out = start.copy()
    packed.run(x, out, b, accumulate=accumulate)
    _near(out - shift, weight, x)
    out = start.copy()
    packed.run(x, out, b, accumulate=accumulate, exact=True)
    close_with_shift(out, shift, weight, x)


def _near(got: np.ndarray, weight: np.ndarray, x: np.ndarray) -> None:
    xq = quantize_like_the_kernel(x)
    want = xq.astype(np.float64) @ weight.T.astype(np.float64)
    largest = np.abs(weight).max(axis=1)[None, :] * np.abs(xq).sum(axis=1)[:, None]
    assert (np.abs(got - want) <= 2e-5 * largest + 1e-5).all(), np.abs(got - want).max()


def close_with_shift(got: np.ndarray, shift: np.ndarray, weight: np.ndarray, x: np.ndarray) -> None:
    want = x.astype(np.float64) @ weight.T.astype(np.float64) + shift
    bound = 2e-6 * (np.abs(x).astype(np.float64) @ np.abs(weight).T.astype(np.float64) + np.abs(shift)) + 1e-6
    assert (np.abs(got - want) <= bound).all(), np.abs(got - want).max()


@settings(max_examples=30, deadline=None)
@given(
    fmt=st.sampled_from(list(FLOATS)),
    n_out=st.integers(1, 40),
    n_in=st.integers(1, 130),
    rows=st.integers(1, 27),
    group=st.sampled_from([0, 32, 64]),
    seed=st.integers(0, 2**31),
)
def test_float_formats(fmt: str, n_out: int, n_in: int, rows: int, group: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight = torch.from_numpy(rng.standard_normal((n_out, n_in), dtype=np.float32))
    stored = weight.to(FLOATS[fmt]).contiguous()
    scales = None
    real = stored.float().numpy()
    if fmt == "F8_E4M3":
        groups = 1 if group == 0 or group >= n_in else -(-n_in // group)
        group = 0 if groups == 1 else group
        scales = rng.uniform(0.5, 2, (n_out, groups)).astype(np.float32)
        real = real * np.repeat(scales, group or n_in, axis=1)[:, :n_in]
    packed = pack(fmt, stored.data_ptr(), n_out, n_in, scales=scales, group=group if fmt == "F8_E4M3" else 0)
    np.testing.assert_array_equal(packed.dequantize(), real)
    x = rng.standard_normal((rows, n_in), dtype=np.float32)
    out = np.empty((rows, n_out), dtype=np.float32)
    packed.run(x, out)
    close(out, real, x)


@settings(max_examples=30, deadline=None)
@given(
    n_out=st.integers(1, 40),
    n_in=st.integers(1, 300),
    rows=st.integers(1, 14),
    group=st.sampled_from([0, 32, 128]),
    seed=st.integers(0, 2**31),
)
def test_int8_channels_and_int4_groups(n_out: int, n_in: int, rows: int, group: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, n_in), dtype=np.float32)
    codes = rng.integers(-128, 128, (n_out, n_in), dtype=np.int8)
    scales = rng.uniform(0.001, 0.02, n_out).astype(np.float32)
    packed = pack("INT8_CHANNEL", codes, n_out, n_in, scales=scales)
    real = codes.astype(np.float32) * scales[:, None]
    np.testing.assert_array_equal(packed.dequantize(), real)
    out = np.empty((rows, n_out), dtype=np.float32)
    packed.run(x, out)
    _near(out, real, x)

    groups = 1 if group == 0 or group >= n_in else -(-n_in // group)
    four = rng.integers(0, 16, (n_out, n_in), dtype=np.uint8)
    zeros = rng.integers(0, 16, (n_out, groups)).astype(np.float32)
    wide = rng.uniform(0.001, 0.02, (n_out, groups)).astype(np.float32)
    packed = pack("INT4_GROUP", four, n_out, n_in, scales=wide, zeros=zeros, group=0 if groups == 1 else group)
    spread = lambda a: np.repeat(a, group if groups > 1 else n_in, axis=1)[:, :n_in]  # noqa: E731
    real = (four.astype(np.float32) - spread(zeros)) * spread(wide)
    np.testing.assert_allclose(packed.dequantize(), real, rtol=1e-5, atol=1e-6)
    packed.run(x, out)
    _near(out, real, x)


@pytest.mark.parametrize("fmt", ["Q4_0", "Q4_1", "Q5_1", "Q6_K", "Q8_0"])
def test_a_row_does_not_depend_on_the_batch(fmt: str) -> None:
    rng = np.random.default_rng(7)
    n_out, blocks = 80, 6 if GGUF[fmt][0] == 32 else 2
    packed = pack(fmt, raw_gguf(rng, fmt, n_out, blocks), n_out, blocks * GGUF[fmt][0])
    x = rng.standard_normal((200, packed.n_in), dtype=np.float32)
    whole = np.empty((200, n_out), dtype=np.float32)
    packed.run(x, whole)
    for rows in (1, 2, 3, 5, 13, 16, 33, 100):
        part = np.empty((rows, n_out), dtype=np.float32)
        packed.run(x[:rows], part)
        np.testing.assert_array_equal(part, whole[:rows])
    sgl_ops.set_threads(1)
    alone = np.empty_like(whole)
    packed.run(x, alone)
    sgl_ops.set_threads()
    np.testing.assert_array_equal(alone, whole)


def test_float_rows_do_not_depend_on_the_batch() -> None:
    rng = np.random.default_rng(3)
    packed = pack("F32", rng.standard_normal((40, 96), dtype=np.float32), 40, 96)
    x = rng.standard_normal((50, 96), dtype=np.float32)
    whole, one = np.empty((50, 40), np.float32), np.empty((1, 40), np.float32)
    packed.run(x, whole)
    for t in range(50):
        packed.run(x[t : t + 1], one)
        np.testing.assert_array_equal(one[0], whole[t])


def test_many_matrices_share_one_input_and_strides() -> None:
    rng = np.random.default_rng(5)
    sizes, formats = (48, 16, 7), ("Q4_1", "Q8_0", "F32")
    raws = [raw_gguf(rng, "Q4_1", 48, 3), raw_gguf(rng, "Q8_0", 16, 3), rng.standard_normal((7, 96), dtype=np.float32)]
    packs = [pack(f, r, n, 96) for f, r, n in zip(formats, raws, sizes, strict=True)]
    x = rng.standard_normal((9, 128), dtype=np.float32)
    out = np.full((9, 80), 77, dtype=np.float32)
    outs = [out[:, 0:], out[:, 48:], out[:, 64:]]
    run_many(packs, x, outs, rows=9, ldx=128, ldo=[80, 80, 80])
    for p, o, n in zip(packs, outs, sizes, strict=True):
        single = np.empty((9, n), dtype=np.float32)
        p.run(np.ascontiguousarray(x[:, :96]), single)
        np.testing.assert_array_equal(o[:, :n], single)
    assert (out[:, 71:] == 77).all()


def test_save_map_and_damage(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    packed = pack("Q4_1", raw_gguf(rng, "Q4_1", 33, 2), 33, 64)
    file = tmp_path / "w.bin"
    packed.save(file)
    again = Packed.open(file)
    assert (again.format, again.n_out, again.n_in, again.nbytes) == ("Q4_1", 33, 64, packed_bytes("Q4_1", 33, 64))
    np.testing.assert_array_equal(again.dequantize(), packed.dequantize())
    short = aligned_empty(packed.nbytes - 64)
    short[:] = packed.data[:-64]
    with pytest.raises(sgl_ops.OpsError, match="cut short"):
        Packed(short)
    other = aligned_empty(512)
    other[:] = 0
    with pytest.raises(sgl_ops.OpsError, match="not a packed weight"):
        Packed(other)


def test_bad_calls_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="no kernel"):
        pack("Q9_9", np.zeros(8, np.uint8), 1, 32)
    with pytest.raises(sgl_ops.OpsError, match="multiple of 256"):
        packed_bytes("Q4_K", 4, 64)
    with pytest.raises(ValueError, match="has 18 bytes"):
        pack("Q4_0", np.zeros(17, np.uint8), 1, 32)
    with pytest.raises(sgl_ops.OpsError, match="32 times a power of two"):
        packed_bytes("INT4_GROUP", 4, 200, group=96)
    a, b = pack("F32", np.zeros((1, 8), np.float32), 1, 8), pack("F32", np.zeros((1, 9), np.float32), 1, 9)
    with pytest.raises(sgl_ops.OpsError, match="cannot share x"):
        run_many([a, b], np.zeros((1, 9), np.float32), [np.zeros(1, np.float32)] * 2)


def rounded(x: np.ndarray, *, away: bool = False) -> np.ndarray:
    """x in bf16, ties to even or away from zero."""
    wide = np.ascontiguousarray(x, dtype=np.float32)
    if away:
        return ((wide.view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
    return torch.from_numpy(wide).to(torch.bfloat16).double().numpy()


def within_bf16(got: np.ndarray, x: np.ndarray, packed: Packed, added: np.ndarray | float = 0.0) -> None:
    """|got - sum(x w)| <= (2 u + u^2 + n 2^-23) sum |x w|: x and w are rounded to bf16 once each and summed in f32; and no further from the product of the rounded numbers than f32 sums are, but for a few weights
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


@needs_tiles
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
def test_bf16_in_every_format(
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
    within_bf16(out, x, packed, (b if bias else 0.0) + (start if accumulate else np.zeros_like(start)))


@needs_tiles
@pytest.mark.parametrize("group", [0, 32, 128])
def test_bf16_of_int8_channels_and_int4_groups(group: int) -> None:
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
        within_bf16(out, x, packed)


@pytest.mark.parametrize("fmt", ["Q4_1", "Q6_K", "Q8_0", "BF16"])
def test_bf16_depends_on_the_row_alone(fmt: str) -> None:
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


def test_bf16_of_many_matrices_and_strides() -> None:
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
