"""Attention of new tokens over paged keys and values, decode rows and prefill chunks in one ragged batch."""

from __future__ import annotations

from .formats import kv_format
from .library import check, load
from .pointers import Data, address


def paged_attention(
    q: Data,
    out: Data,
    k_cache: Data,
    v_cache: Data,
    page_table: Data,
    query_lens: Data,
    context_lens: Data,
    *,
    tokens: int,
    requests: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    page_size: int,
    pages_stride: int,
    scale: float,
    v_head_dim: int | None = None,
    kv_dtype: str = "float32",
    k_scale: Data | None = None,
    v_scale: Data | None = None,
    window: int = 0,
    softcap: float = 0.0,
    sinks: Data | None = None,
    causal: bool = True,
    ldq: int | None = None,
    ldo: int | None = None,
    slot_stride: int | None = None,
    v_slot_stride: int | None = None,
    head_stride: int | None = None,
    v_head_stride: int | None = None,
    bf16_from: int | None = None,
) -> None:
    """out[T, heads, v_head_dim] = softmax(scale q k^T) v over each request's keys 0 .. context + its own token.

    q, out f32 (row strides ``ldq``/``ldo``). Caches: [slots, kv_heads, dim], slot = page * page_size + offset; other layouts by
    strides in elements. ``page_table`` int32 [requests, pages_stride]; ``query_lens``, ``context_lens`` int32 [requests] as in
    ``StepBatch`` (context: tokens in the cache before this step; the new tokens' keys must be written already).
    int8 caches: scales f32 [slots, kv_heads]; float8_e4m3fn: one f32 each, or None for 1. ``window``: a query sees that many keys,
    its own included (0: all). ``sinks``: f32 [heads], one logit per head that only joins the denominator.
    Requests from ``bf16_from`` on (0: all; None: none) round q, keys, values and weights to bf16 and sum in f32, where the
    instruction set has such tiles (``sgl_ops.bf16_tiles()``). Over a bf16 cache, which needs no rounding, the requests before it do
    the same, with the same bits.
    Head sizes must be multiples of 16. A token's result does not depend on the batch, the chunking or the threads.
    """
    dim_v = v_head_dim or head_dim
    hs_k, hs_v = head_stride or head_dim, v_head_stride or dim_v
    check(
        load().sgl_attention(
            address(q),
            ldq or heads * head_dim,
            address(out),
            ldo or heads * dim_v,
            address(k_cache),
            address(v_cache),
            kv_format(kv_dtype),
            slot_stride or kv_heads * hs_k,
            v_slot_stride or kv_heads * hs_v,
            hs_k,
            hs_v,
            address(k_scale),
            address(v_scale),
            address(page_table),
            pages_stride,
            page_size,
            address(query_lens),
            address(context_lens),
            tokens,
            requests,
            heads,
            kv_heads,
            head_dim,
            dim_v,
            scale,
            window,
            softcap,
            address(sinks),
            int(causal),
            -1 if bf16_from is None else bf16_from,
        )
    )
