"""Row operations against torch: norms, rotary embedding with KV write, activations, gather."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sgl_ops
from sgl_ops.fused import act_mul, add, gather_rows, rms_norm, rope_kv


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def norm_oracle(x: np.ndarray, w: np.ndarray, eps: float, offset: float = 0.0) -> np.ndarray:
    y = x.astype(np.float64)
    return y / np.sqrt((y * y).mean(-1, keepdims=True) + eps) * (w + offset)


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 40),
    dim=st.integers(1, 700),
    seed=st.integers(0, 2**31),
    residual=st.booleans(),
    offset=st.sampled_from([0.0, 1.0]),
)
def test_rms_norm(rows: int, dim: int, seed: int, residual: bool, offset: float) -> None:
    x, w = normal(seed, rows, dim), normal(seed + 1, dim)
    r = normal(seed + 2, rows, dim)
    start = r.copy()
    out = np.empty_like(x)
    rms_norm(x, w, out, rows=rows, dim=dim, eps=1e-5, residual=r if residual else None, weight_offset=offset)
    y = x + start if residual else x
    np.testing.assert_array_equal(r, y if residual else start)
    np.testing.assert_allclose(out, norm_oracle(y, w, 1e-5, offset), rtol=2e-5, atol=2e-6)
    rms_norm(x, w, x, rows=rows, dim=dim, eps=1e-5, residual=start if residual else None, weight_offset=offset)
    np.testing.assert_array_equal(x, out)


def rotate(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, interleaved: bool) -> np.ndarray:
    rot, y = 2 * cos.shape[-1], x.copy()
    a, b = (x[..., 0:rot:2], x[..., 1:rot:2]) if interleaved else (x[..., : rot // 2], x[..., rot // 2 : rot])
    c, s = cos[:, None], sin[:, None]
    if interleaved:
        y[..., 0:rot:2], y[..., 1:rot:2] = a * c - b * s, b * c + a * s
    else:
        y[..., : rot // 2], y[..., rot // 2 : rot] = a * c - b * s, b * c + a * s
    return y


@settings(max_examples=30, deadline=None)
@given(
    tokens=st.integers(1, 20),
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    half=st.sampled_from([4, 8, 20, 32]),
    rest=st.sampled_from([0, 16]),
    interleaved=st.booleans(),
    norm=st.booleans(),
    wide=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_rope_kv(
    tokens: int, kv_heads: int, group: int, half: int, rest: int, interleaved: bool, norm: bool, wide: bool, seed: int
) -> None:
    rng, dim, heads = np.random.default_rng(seed), 2 * half + rest, kv_heads * group
    qkv = normal(seed, tokens, (heads + 2 * kv_heads) * dim)
    start = qkv.reshape(tokens, -1, dim).copy()
    angles = rng.uniform(0, 6, (50, half))
    table = np.concatenate([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
    index = np.int64 if wide else np.int32
    positions, slots = rng.integers(0, 50, tokens).astype(index), rng.permutation(32)[:tokens].astype(index)
    slots[0] = -1
    wq, wk = normal(seed + 1, dim), normal(seed + 2, dim)
    k_cache, v_cache = np.zeros((32, kv_heads, dim), np.float32), np.zeros((32, kv_heads, dim), np.float32)
    stride = qkv.shape[1]
    rope_kv(
        qkv, qkv[:, heads * dim :], qkv[:, (heads + kv_heads) * dim :], tokens=tokens, heads=heads, kv_heads=kv_heads, head_dim=dim,
        ldq=stride, ldk=stride, ldv=stride, positions=positions, cos_sin=table, max_position=50, rot_dim=2 * half,
        interleaved=interleaved, q_norm=wq if norm else None, k_norm=wk if norm else None, eps=1e-6, slots=slots, k_cache=k_cache,
        v_cache=v_cache,
    )  # fmt: skip
    q, k, v = start[:, :heads], start[:, heads : heads + kv_heads], start[:, heads + kv_heads :]
    if norm:
        q, k = norm_oracle(q, wq, 1e-6), norm_oracle(k, wk, 1e-6)
    cos, sin = table[positions, :half], table[positions, half:]
    got = qkv.reshape(tokens, -1, dim)
    np.testing.assert_allclose(got[:, :heads], rotate(q, cos, sin, interleaved), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[:, heads : heads + kv_heads], rotate(k, cos, sin, interleaved), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(got[:, heads + kv_heads :], v)
    np.testing.assert_array_equal(k_cache[slots[1:]], got[1:, heads : heads + kv_heads])
    np.testing.assert_array_equal(v_cache[slots[1:]], v[1:])
    untouched = np.setdiff1d(np.arange(32), slots[1:])
    assert not k_cache[untouched].any()
    assert not v_cache[untouched].any()


@pytest.mark.parametrize(
    ("kv_dtype", "dtype"),
    [("float16", torch.float16), ("bfloat16", torch.bfloat16), ("float8_e4m3fn", torch.float8_e4m3fn)],
)
def test_kv_write_rounds_like_torch(kv_dtype: str, dtype: torch.dtype) -> None:
    x = np.concatenate(
        [normal(1, 4096), normal(2, 4096) * 1e-3, normal(3, 4096) * 1e-6, normal(4, 512) * 100, np.zeros(1, np.float32)]
    )
    x = np.concatenate([x, -x, np.ldexp(np.float32(1), np.arange(-30, 8)).astype(np.float32)])
    x = np.resize(x, (1, 1, len(x) // 16 * 16))
    want = (
        torch.from_numpy(x).clamp(-448, 448).to(dtype)
        if kv_dtype.startswith("float8")
        else torch.from_numpy(x).to(dtype)
    )
    cache = [np.zeros(x.size * want.element_size(), np.uint8) for _ in range(2)]
    rope_kv(
        None, x, x, tokens=1, heads=1, kv_heads=1, head_dim=x.size, slots=np.zeros(1, np.int64), k_cache=cache[0], v_cache=cache[1],
        kv_dtype=kv_dtype,
    )  # fmt: skip
    for c in cache:
        np.testing.assert_array_equal(c, want.view(torch.uint8).numpy().ravel())


@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(1, 9),
    dim=st.integers(1, 20000),
    kind=st.sampled_from(["silu", "gelu", "gelu_tanh"]),
    up=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_act_mul(rows: int, dim: int, kind: str, up: bool, seed: int) -> None:
    both = normal(seed, rows, 2 * dim) * 3
    out = np.empty((rows, dim), np.float32)
    act_mul(both, both[:, dim:] if up else None, out, rows=rows, dim=dim, kind=kind, ldg=2 * dim, ldu=2 * dim)
    gate = torch.from_numpy(both[:, :dim].astype(np.float64))
    functional = torch.nn.functional
    want = (
        functional.silu(gate)
        if kind == "silu"
        else functional.gelu(gate, approximate="tanh" if kind == "gelu_tanh" else "none")
    )
    want = want.numpy() * (both[:, dim:] if up else 1)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=4e-6)


def test_extreme_activations_stay_finite() -> None:
    gate = np.array([[-1e30, -200.0, -88.0, 0.0, 88.0, 200.0, 1e30, -1e-30]], np.float32)
    out = np.empty_like(gate)
    act_mul(gate, None, out, rows=1, dim=8)
    np.testing.assert_allclose(out, torch.nn.functional.silu(torch.from_numpy(gate)).numpy(), rtol=1e-5, atol=1e-30)


def test_add_and_gather() -> None:
    x, y = normal(1, 5, 700), normal(2, 5, 700)
    want = x + y
    add(x, y, rows=5, dim=700)
    np.testing.assert_array_equal(x, want)
    out = np.empty((3, 700), np.float32)
    gather_rows(x, np.array([4, 0, 4], np.int64), out, count=3, dim=700)
    np.testing.assert_array_equal(out, x[[4, 0, 4]])


def test_bad_calls_say_what_is_wrong() -> None:
    x = np.zeros((1, 16), np.float32)
    with pytest.raises(ValueError, match="no kernel"):
        act_mul(x, None, x, rows=1, dim=16, kind="relu")
    with pytest.raises(sgl_ops.OpsError, match="rotated"):
        rope_kv(
            x,
            None,
            None,
            tokens=1,
            heads=1,
            kv_heads=1,
            head_dim=16,
            positions=np.zeros(1, np.int32),
            cos_sin=x,
            max_position=1,
            rot_dim=18,
        )
