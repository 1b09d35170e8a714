"""torch_native attention against attention written out densely, and the same bits in any batch."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sgl_torch.attention.base import AttentionContext
from sgl_torch.attention.torch_native import TorchNativeAttention
from sgl_torch.context import LayerContext
from sgl_torch.forward_batch import ForwardBatch
from sgl_torch.kv_pool import KVPool
from sgl_torch.layers import Attention
from sgl_torch.ops import OpContext, reference_ops

CPU = torch.device("cpu")
SLOTS = 8192


@dataclass
class Setup:
    """One layer over its own pool; sequences have their whole q, k, v given, and go through in any pieces."""

    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 16
    page_size: int = 4
    window: int | None = None
    soft_cap: float | None = None
    sinks: bool = False
    kv_dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        self.pool = KVPool(
            num_layers=1,
            num_slots=SLOTS,
            num_kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            dtype=self.kv_dtype,
            device=CPU,
        )
        for tensor in (*self.pool.k, *self.pool.v):
            tensor.fill_(float("nan"))  # whatever is read without having been written shows
        context = AttentionContext(
            pool=self.pool, page_size=self.page_size, dtype=torch.float32, device=CPU, context_length=4096
        )
        self.backend = TorchNativeAttention(context)
        ops = reference_ops(OpContext(device=CPU, dtype=torch.float32))
        layers = LayerContext(ops=ops, dtype=torch.float32, device=CPU, context_length=4096)
        self.layer = Attention(
            0,
            self.heads,
            self.kv_heads,
            self.head_dim,
            layers,
            window=self.window,
            soft_cap=self.soft_cap,
            sinks=self.sinks,
        )
        if self.layer.sinks is not None:
            self.layer.sinks.copy_(torch.linspace(-1, 2, self.heads))
        self.free = list(range(SLOTS // self.page_size))
        random.Random(3).shuffle(self.free)

    def sequence(self, length: int, seed: int) -> Seq:
        generator = torch.Generator().manual_seed(seed)
        q = torch.randn(length, self.heads, self.head_dim, generator=generator)
        k, v = (torch.randn(length, self.kv_heads, self.head_dim, generator=generator) for _ in range(2))
        pages = [self.free.pop() for _ in range(-(-length // self.page_size))]
        return Seq(q, k, v, pages)

    def run(self, rows: list[tuple[Seq, int]]) -> list[torch.Tensor]:
        """Advance each sequence; outputs [n, heads * head_dim] of each row."""
        query = np.array([n for _, n in rows])
        context = np.array([s.done for s, _ in rows])
        table = np.zeros((len(rows), max(len(s.pages) for s, _ in rows)), dtype=np.int64)
        positions: list[int] = []
        slots: list[int] = []
        for i, (s, n) in enumerate(rows):
            table[i, : len(s.pages)] = s.pages
            for p in range(s.done, s.done + n):
                positions.append(p)
                slots.append(s.pages[p // self.page_size] * self.page_size + p % self.page_size)
        batch = ForwardBatch(
            input_ids=torch.zeros(len(positions), dtype=torch.int64),
            positions=torch.tensor(positions),
            write_slots=torch.tensor(slots),
            query_lens=query,
            context_lens=context,
            page_table=table,
            last_index=np.cumsum(query) - 1,
            page_size=self.page_size,
            decode=bool((query == 1).all()),
            attention=self.backend,
        )
        batch.attention_plan = self.backend.plan(batch)
        q, k, v = (torch.cat([getattr(s, x)[s.done : s.done + n] for s, n in rows]) for x in "qkv")
        out = self.backend.forward(q, k, v, self.layer, batch).reshape(len(positions), -1)
        for s, n in rows:
            s.done += n
        return list(torch.split(out, [n for _, n in rows]))

    def expected(self, s: Seq) -> torch.Tensor:
        """[length, heads * head_dim] by the definition, in fp64."""
        shared = self.heads // self.kv_heads
        k, v = (t.double().repeat_interleave(shared, dim=1) for t in (s.k, s.v))
        scores = torch.einsum("qhd,khd->hqk", s.q.double(), k) / math.sqrt(self.head_dim)
        if self.soft_cap:
            scores = self.soft_cap * torch.tanh(scores / self.soft_cap)
        gap = torch.arange(len(s.q))[:, None] - torch.arange(len(s.q))[None, :]
        hidden = gap < 0 if self.window is None else (gap < 0) | (gap >= self.window)
        scores = scores.masked_fill(hidden, float("-inf"))
        if self.layer.sinks is not None:
            sink = self.layer.sinks.double().view(-1, 1, 1).expand(-1, len(s.q), 1)
            weights = torch.cat((scores, sink), dim=-1).softmax(-1)[..., :-1]
        else:
            weights = scores.softmax(-1)
        return torch.einsum("hqk,khd->qhd", weights, v).flatten(1)


@dataclass
class Seq:
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    pages: list[int]
    done: int = 0


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "page1": {"page_size": 1},
    "one_kv_head": {"heads": 5, "kv_heads": 1, "head_dim": 24},
    "no_sharing": {"heads": 3, "kv_heads": 3},
    "window": {"window": 37, "page_size": 16},
    "window1": {"window": 1},
    "soft_cap": {"soft_cap": 2.0},
    "sinks": {"sinks": True},
    "sinks_window_cap": {"sinks": True, "window": 50, "soft_cap": 5.0},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_equals_the_definition(variant: str) -> None:
    setup = Setup(**VARIANTS[variant])
    sequences = [setup.sequence(length, seed) for seed, length in enumerate((1, 2, 40, 300, 700))]
    setup.run([(s, len(s.q) // 2) for s in sequences[1:]])
    setup.run([(s, 1) for s in sequences])
    rows = [(s, 1) for s in sequences[2:]]
    setup.run(rows)
    mixed = [(sequences[2], 1), (sequences[3], len(sequences[3].q) - sequences[3].done), (sequences[4], 200)]
    for (s, n), got in zip(mixed, setup.run(mixed), strict=True):
        assert (got - setup.expected(s)[s.done - n : s.done]).abs().max() < 1e-5


@pytest.mark.parametrize("variant", ["plain", "window", "one_kv_head"])
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_same_bits_however_it_is_batched_and_cut(variant: str, data: st.DataObject) -> None:
    setup = Setup(**VARIANTS[variant])
    lengths = data.draw(st.lists(st.integers(1, 620), min_size=1, max_size=5))
    whole = []
    for seed, length in enumerate(lengths):
        s = setup.sequence(length, seed)
        whole.append(setup.run([(s, length)])[0])
        setup.free += s.pages
    sequences = [setup.sequence(length, seed) for seed, length in enumerate(lengths)]
    pieces: list[list[torch.Tensor]] = [[] for _ in lengths]
    while any(s.done < len(s.q) for s in sequences):
        rows = []
        for i, s in enumerate(sequences):
            left = len(s.q) - s.done
            n = min(left, data.draw(st.sampled_from((0, 1, 1, 2, 33, 150, 600))))
            if n:
                rows.append((i, n))
        if not rows:
            rows = [(i, len(s.q) - s.done) for i, s in enumerate(sequences) if s.done < len(s.q)]
        rows.sort(key=lambda row: row[1] != 1)
        for (i, _), got in zip(rows, setup.run([(sequences[i], n) for i, n in rows]), strict=True):
            pieces[i].append(got)
    assert all(torch.equal(torch.cat(got), want) for got, want in zip(pieces, whole, strict=True))


def test_many_decode_rows_are_few_calls() -> None:
    setup = Setup()
    sequences = [setup.sequence(5 + i, i) for i in range(64)]
    for s in sequences:
        setup.run([(s, len(s.q) - 1)])
    calls = 0
    real = torch.nn.functional.scaled_dot_product_attention

    def counted(*args: Any, **kwargs: Any) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return real(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
        rows = setup.run([(s, 1) for s in sequences])
    assert calls <= 4
    for s, got in zip(sequences, rows, strict=True):
        assert (got[0] - setup.expected(s)[-1]).abs().max() < 1e-5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_storage_in_fewer_bits(dtype: torch.dtype) -> None:
    setup = Setup(kv_dtype=dtype)
    setup.layer.k_scale, setup.layer.v_scale = 0.02, 0.03
    s = setup.sequence(60, 0)
    setup.run([(s, 59)])
    got = setup.run([(s, 1)])[0][0]
    assert torch.nn.functional.cosine_similarity(got, setup.expected(s)[-1].float(), dim=0) > 0.98


def test_page_copies_reach_every_layer() -> None:
    pool = KVPool(num_layers=2, num_slots=12, num_kv_heads=1, head_dim=4, dtype=torch.float8_e4m3fn, device=CPU)
    for layer in range(2):
        values = torch.arange(12.0).view(12, 1, 1).expand(12, 1, 4) + layer
        pool.store(layer, torch.arange(12), values, -values)
    pool.copy_pages(torch.tensor([[2, 0], [1, 2]]), page_size=4)
    for layer in range(2):
        k, v = pool.gather(layer, torch.arange(12), torch.float32)
        positions = [8, 9, 10, 11, 4, 5, 6, 7, 4, 5, 6, 7]
        assert k[:, 0, 0].tolist() == [position + layer for position in positions]
        assert torch.equal(v, -k)
