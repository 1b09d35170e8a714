"""Row operations: RMS norm with residual, q/k norm + rotary embedding + KV write, gated activations, addition, row gather."""

from __future__ import annotations

from .formats import activation, kv_format
from .library import check, load
from .pointers import Data, address, is64


def rms_norm(
    x: Data,
    weight: Data | None,
    out: Data,
    *,
    rows: int,
    dim: int,
    eps: float,
    residual: Data | None = None,
    weight_offset: float = 0.0,
    ldx: int | None = None,
    ldo: int | None = None,
    ldr: int | None = None,
) -> None:
    """out = y / sqrt(mean(y^2) + eps) * (weight + weight_offset), f32 [rows, dim]; out may be x.

    ``residual`` given: residual += x first and y is the new residual; else y is x.
    """
    check(
        load().sgl_rms_norm(
            address(x),
            ldx or dim,
            address(residual),
            ldr or dim,
            address(weight),
            address(out),
            ldo or dim,
            rows,
            dim,
            eps,
            weight_offset,
        )
    )


def rope_kv(
    q: Data | None,
    k: Data | None,
    v: Data | None,
    *,
    tokens: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    v_head_dim: int | None = None,
    ldq: int | None = None,
    ldk: int | None = None,
    ldv: int | None = None,
    positions: Data | None = None,
    cos_sin: Data | None = None,
    max_position: int = 0,
    rot_dim: int | None = None,
    interleaved: bool = False,
    q_norm: Data | None = None,
    k_norm: Data | None = None,
    eps: float = 1e-6,
    norm_offset: float = 0.0,
    slots: Data | None = None,
    k_cache: Data | None = None,
    v_cache: Data | None = None,
    kv_dtype: str = "float32",
    k_scale: Data | None = None,
    v_scale: Data | None = None,
    slot_stride: int | None = None,
    v_slot_stride: int | None = None,
    head_stride: int | None = None,
    v_head_stride: int | None = None,
    wide_positions: bool | None = None,
    wide_slots: bool | None = None,
) -> None:
    """Between the qkv product and attention, in one pass over the new tokens; every part is optional.

    q f32 [T, heads, head_dim] and k [T, kv_heads, head_dim] change in place: RMS norm per head (``q_norm``, ``k_norm`` [head_dim]),
    then rotary embedding by ``cos_sin`` f32 [max_position, rot_dim] (cosines, then sines, rot_dim/2 each) at ``positions`` [T];
    ``interleaved`` pairs elements (2i, 2i+1) instead of (i, i + rot_dim/2). With ``slots`` [T] (negative: skip) k and v are written
    to the caches; int8 caches get their scale per slot and head (``k_scale``, ``v_scale`` f32 [slots, kv_heads], written),
    float8_e4m3fn divides by the one number ``k_scale``/``v_scale`` (None: 1) and saturates at 448.
    Index arrays are int32 or int64; pass ``wide_*`` when they are bare addresses.
    """
    dim_v = v_head_dim or head_dim
    hs_k, hs_v = head_stride or head_dim, v_head_stride or dim_v
    check(
        load().sgl_rope_kv(
            address(q),
            ldq or heads * head_dim,
            address(k),
            ldk or kv_heads * head_dim,
            address(v),
            ldv or kv_heads * dim_v,
            tokens,
            heads,
            kv_heads,
            head_dim,
            dim_v,
            address(positions),
            0 if positions is None else is64(positions, wide_positions),
            address(cos_sin),
            max_position,
            rot_dim or head_dim,
            int(interleaved),
            address(q_norm),
            address(k_norm),
            eps,
            norm_offset,
            address(slots),
            0 if slots is None else is64(slots, wide_slots),
            address(k_cache),
            address(v_cache),
            kv_format(kv_dtype),
            slot_stride or kv_heads * hs_k,
            v_slot_stride or kv_heads * hs_v,
            hs_k,
            hs_v,
            address(k_scale),
            address(v_scale),
        )
    )


def act_mul(
    gate: Data,
    up: Data | None,
    out: Data,
    *,
    rows: int,
    dim: int,
    kind: str = "silu",
    ldg: int | None = None,
    ldu: int | None = None,
    ldo: int | None = None,
) -> None:
    """out = act(gate) * up (up None: act(gate)), f32 [rows, dim]; kind: silu, gelu (erf) or gelu_tanh. out may be gate."""
    act = activation(kind)
    check(
        load().sgl_act_mul(address(gate), ldg or dim, address(up), ldu or dim, address(out), ldo or dim, rows, dim, act)
    )


def add(x: Data, y: Data, *, rows: int, dim: int, ldx: int | None = None, ldy: int | None = None) -> None:
    """x += y, f32 [rows, dim]."""
    check(load().sgl_add(address(x), ldx or dim, address(y), ldy or dim, rows, dim))


def gather_rows(
    x: Data,
    index: Data,
    out: Data,
    *,
    count: int,
    dim: int,
    ldx: int | None = None,
    ldo: int | None = None,
    wide: bool | None = None,
) -> None:
    """out[i] = x[index[i]], f32: the rows that are sampled."""
    check(
        load().sgl_gather_rows(
            address(x), ldx or dim, address(index), is64(index, wide), count, address(out), ldo or dim, dim
        )
    )
