"""One-thread cost of single kernels by CPU time (a busy neighbour disturbs it little): GFLOP/s, GB/s, cycles per key.

SGL_CPU_ISA=avx2 python kernels/bench/micro.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import sgl_ops
from sgl_ops import attention, linear


def cpu_seconds(run: Callable[[], None], least: float = 0.15) -> float:
    """CPU seconds of one call, best of three batches."""
    run()
    count, best = 1, 1e30
    while True:
        start = time.thread_time()
        for _ in range(count):
            run()
        spent = time.thread_time() - start
        if spent > least / 5:
            break
        count *= 2
    for _ in range(5):
        start = time.thread_time()
        for _ in range(count):
            run()
        best = min(best, (time.thread_time() - start) / count)
    return best


def product(packed: linear.Packed, tokens: int, bf16_from: int | None = None) -> float:
    """CPU seconds of one product."""
    x, out = (
        np.random.default_rng(0).standard_normal((tokens, packed.n_in), dtype=np.float32),
        np.empty((tokens, packed.n_out), np.float32),
    )
    return cpu_seconds(lambda: packed.run(x, out, rows=tokens, bf16_from=bf16_from))


def products() -> None:
    rng = np.random.default_rng(0)
    for fmt, block, size in (
        ("Q4_0", 32, 18),
        ("Q4_1", 32, 20),
        ("Q8_0", 32, 34),
        ("Q6_K", 256, 210),
        ("BF16", 1, 2),
        ("F32", 1, 4),
    ):
        for n_out, n_in in ((1536, 768), (576, 1536)):
            raw: np.ndarray = rng.integers(0, 60, (n_out, n_in // block * size), dtype=np.uint8)
            if block == 1:
                raw = rng.standard_normal((n_out, n_in), dtype=np.float32)
                raw = raw if size == 4 else (raw.view(np.uint32) >> 16).astype(np.uint16)
            packed = linear.pack(fmt, raw, n_out, n_in)
            line = f"{fmt:<5} {n_out:>5} x {n_in:<5}"
            for tokens in (1, 2, 4, 8, 16, 96):
                seconds = product(packed, tokens)
                if tokens == 1:
                    line += f"  T=1 {packed.nbytes / seconds / 1e9:5.1f} GB/s |"
                line += f" {tokens}: {2e-9 * tokens * n_out * n_in / seconds:5.1f}"
            print(line + " GFLOP/s")
            if not sgl_ops.bf16_tiles():
                continue
            line = f"{'':<19} bf16           |"
            for tokens in (1, 16, 32, 96, 512):
                line += f" {tokens}: {2e-9 * tokens * n_out * n_in / product(packed, tokens, 0):5.1f}"
            print(line + " GFLOP/s")


def attend(
    kv_dtype: str, size: int, heads: int, kv_heads: int, dim: int, queries: int, context: int, bf16_from: int | None
) -> None:
    rng = np.random.default_rng(0)
    slots = context + queries
    cache = [np.full(slots * kv_heads * dim * size, 0x3D, np.uint8) for _ in range(2)]  # about 0.05 in every float type
    scale = np.ones((slots, kv_heads), np.float32)
    q = rng.standard_normal((queries, heads * dim), dtype=np.float32)
    out, table = np.empty_like(q), np.arange(-(-slots // 16), dtype=np.int32)
    lens, contexts = np.array([queries], np.int32), np.array([context], np.int32)

    def run() -> None:
        attention.paged_attention(
            q, out, cache[0], cache[1], table, lens, contexts, tokens=queries, requests=1, heads=heads, kv_heads=kv_heads,
            head_dim=dim, page_size=16, pages_stride=len(table), scale=0.1, kv_dtype=kv_dtype, k_scale=scale, v_scale=scale,
            bf16_from=bf16_from,
        )  # fmt: skip

    seconds = cpu_seconds(run)
    pairs = queries * (context + (queries + 1) / 2)
    print(
        f"attention {kv_dtype:<9} {'f32 ' if bf16_from is None else 'bf16'} heads {heads}/{kv_heads} dim {dim} q {queries} ctx {context}: "
        f"{4e-9 * pairs * heads * dim / seconds:5.1f} GFLOP/s, {seconds * 1e9 / (pairs * kv_heads):6.1f} ns per key and kv head"
    )


def keys() -> None:
    for kv_dtype, size in (("float32", 4), ("bfloat16", 2), ("int8", 1)):
        for heads, kv_heads, dim in ((9, 3, 64), (32, 8, 128)):
            for queries, context in ((1, 1024), (256, 256)):
                for bf16_from in (None, 0) if sgl_ops.bf16_tiles() else (None,):
                    attend(kv_dtype, size, heads, kv_heads, dim, queries, context, bf16_from)


if __name__ == "__main__":
    sgl_ops.set_threads(1)
    print(f"isa {sgl_ops.isa()}, one thread")
    products()
    keys()
