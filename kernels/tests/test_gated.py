"""Gate, up and activation as one op: the bits of the two products followed by the activation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sgl_ops
from sgl_ops.fused import act_mul
from sgl_ops.linear import Packed, pack, run_gated, run_many


def matrix(rng: np.random.Generator, fmt: str, n_out: int, n_in: int) -> Packed:
    if fmt == "F32":
        return pack(fmt, rng.standard_normal((n_out, n_in), dtype=np.float32), n_out, n_in)
    raw = rng.integers(0, 256, (n_out, n_in // 32, 20), dtype=np.uint8)
    raw[:, :, :4] = rng.uniform(-0.05, 0.05, (n_out, n_in // 32, 2)).astype(np.float16).view(np.uint8)
    return pack(fmt, raw, n_out, n_in)


@settings(max_examples=40, deadline=None)
@given(
    formats=st.sampled_from([("Q4_1", "Q4_1"), ("Q4_1", "F32"), ("F32", "F32")]),
    n_out=st.integers(1, 70),
    blocks=st.integers(1, 4),
    rows=st.integers(1, 70),
    kind=st.sampled_from(["silu", "gelu", "gelu_tanh"]),
    bias=st.booleans(),
    exact=st.booleans(),
    tiles_from=st.one_of(st.none(), st.integers(0, 70)),
    threads=st.sampled_from([1, 3]),
    seed=st.integers(0, 2**31),
)
def test_the_bits_of_the_separate_ops(
    formats: tuple[str, str],
    n_out: int,
    blocks: int,
    rows: int,
    kind: str,
    bias: bool,
    exact: bool,
    tiles_from: int | None,
    threads: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    gate, up = (matrix(rng, fmt, n_out, 32 * blocks) for fmt in formats)
    x = rng.standard_normal((rows, 32 * blocks), dtype=np.float32)
    biases = [rng.standard_normal(n_out, dtype=np.float32) for _ in range(2)] if bias else None
    start = None if tiles_from is None else min(tiles_from, rows)
    options = {"exact": exact, "bf16_from": start}
    products = [np.empty((rows, n_out), np.float32) for _ in range(2)]
    want, got = np.empty((rows, n_out), np.float32), np.full((rows, n_out + 3), np.nan, np.float32)
    run_many([gate, up], x, products, biases, **options)
    act_mul(*products, want, rows=rows, dim=n_out, kind=kind)
    sgl_ops.set_threads(threads)
    run_gated(gate, up, x, got, kind, biases=biases, ldo=n_out + 3, **options)
    sgl_ops.set_threads()
    np.testing.assert_array_equal(got[:, :n_out], want)
    assert np.isnan(got[:, n_out:]).all()


def test_unequal_outputs_and_unknown_activations_are_refused() -> None:
    rng = np.random.default_rng(0)
    gate, up = matrix(rng, "F32", 4, 32), matrix(rng, "F32", 5, 32)
    x, out = np.zeros((1, 32), np.float32), np.empty((1, 4), np.float32)
    with pytest.raises(sgl_ops.OpsError, match="a gate of 4 outputs for 5"):
        run_gated(gate, up, x, out)
    with pytest.raises(ValueError, match="relu"):
        run_gated(gate, gate, x, out, "relu")
