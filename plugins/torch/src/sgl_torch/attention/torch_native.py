"""Attention in torch: each row's keys and values are gathered from their pages and go through scaled_dot_product_attention.

Rows with one new token are padded to a few common lengths and computed together; longer chunks go row by row in blocks of queries.

Why a row's result does not depend on its batch (fp32, bit for bit). torch's kernel works through the keys in blocks of 512
with an online softmax. (1) A row's keys always start at a multiple of 512, so blocks hold the same positions whatever the
chunk. (2) Padding is masked, which adds exact zeros; and the padded length is a multiple of 16, so that the vector lanes of
each sum hold the same keys. (3) The matrix product over a block splits long blocks; a last block longer than ``exact_tail``
is therefore padded to the full 512 (measured at start, 256 keys on AVX-512). (4) MKL must not choose its arithmetic by
shape: ``MKL_CBWR=AUTO,STRICT``, which :mod:`sgl_torch.exactness` sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from ..exactness import KEY_BLOCK, LANES, exact_tail
from .base import AttentionContext

if TYPE_CHECKING:
    from ..forward_batch import ForwardBatch
    from ..layers.attention import Attention

_QUERY_BLOCK = 512
_GATHER_BYTES = 16 << 20
"""Largest gathered tensor: beyond it the allocator maps fresh memory on each call."""


@dataclass(slots=True)
class Group:
    """One attention call. ``keys`` are the KV slots to gather, row after row, and ``mask`` is added to the scores.

    For single tokens (``rows`` > 0) keys are [rows * length] and mask is [rows, 1, 1, length]; for a block of queries the keys
    are the row's whole range, of which ``key_range`` is used, and mask is [n, length].
    """

    tokens: torch.Tensor | slice
    mask: torch.Tensor
    rows: int
    length: int
    key_range: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class WindowPlan:
    """The calls of a step for layers of one window size; ``chunks`` pairs a chunk's KV slots with its query blocks."""

    singles: list[tuple[torch.Tensor, Group]] = field(default_factory=list)
    chunks: list[tuple[torch.Tensor, list[Group]]] = field(default_factory=list)


class TorchNativeAttention:
    """See the module's docstring. Serves GQA, windows, soft-caps and sinks on any device torch runs on."""

    fuses_qkv = False

    def __init__(self, context: AttentionContext) -> None:
        self._pool = context.pool
        self._page_size = context.page_size
        self._dtype = context.dtype
        self._device = context.device
        self._head_dim = context.pool.k[0].shape[2] if context.pool.k else 64
        tail = exact_tail(self._head_dim) if context.dtype == torch.float32 else 0
        self.exact = tail > 0
        self._tail = tail or KEY_BLOCK // 2
        per_key = context.pool.k[0].shape[1] * self._head_dim * context.dtype.itemsize if context.pool.k else 1
        self._max_keys = max(KEY_BLOCK, _GATHER_BYTES // per_key)

    def plan(self, batch: ForwardBatch) -> dict[int | None, WindowPlan]:
        """Plans by window, made when the first layer of that window asks."""
        return {}

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer: Attention, batch: ForwardBatch
    ) -> torch.Tensor:
        pool, index = self._pool, layer.layer_id
        pool.store(index, batch.write_slots, k, v, layer.k_scale, layer.v_scale)
        plans: dict[int | None, WindowPlan] = batch.attention_plan
        plan = plans.get(layer.window)
        if plan is None:
            plan = plans[layer.window] = self._plan_window(batch, layer.window)
        if len(plan.singles) == 1 and not plan.chunks:
            keys, group = plan.singles[0]
            return self._single(q, keys, group, layer)
        out = torch.empty((q.shape[0], layer.num_heads, pool.v[index].shape[2]), dtype=q.dtype, device=q.device)
        for keys, group in plan.singles:
            out[group.tokens] = self._single(q[group.tokens], keys, group, layer)
        for keys, blocks in plan.chunks:
            k_all, v_all = pool.gather(index, keys, self._dtype, layer.k_scale, layer.v_scale)
            for group in blocks:
                out[group.tokens] = self._block(q[group.tokens], k_all, v_all, group, layer)
        return out

    def forward_qkv(self, qkv: torch.Tensor, layer: Attention, batch: ForwardBatch) -> torch.Tensor:
        raise NotImplementedError("torch_native takes q, k and v")

    def _single(self, q: torch.Tensor, keys: torch.Tensor, group: Group, layer: Attention) -> torch.Tensor:
        """``q`` [rows, heads, head_dim]: the heads that share a key head are the queries of one product."""
        k, v = self._pool.gather(layer.layer_id, keys, self._dtype, layer.k_scale, layer.v_scale)
        shape = (group.rows, group.length, layer.num_kv_heads, -1)
        shared = layer.num_heads // layer.num_kv_heads
        grouped = q.reshape(group.rows, layer.num_kv_heads, shared, -1)
        mask = group.mask.expand(group.rows, layer.num_kv_heads, shared, group.length)
        sinks = None if layer.sinks is None else layer.sinks.view(1, layer.num_kv_heads, shared, 1)
        out = _attend(grouped, k.view(shape).transpose(1, 2), v.view(shape).transpose(1, 2), mask, sinks, layer)
        return out.reshape(group.rows, layer.num_heads, -1)

    def _block(
        self, q: torch.Tensor, k_all: torch.Tensor, v_all: torch.Tensor, group: Group, layer: Attention
    ) -> torch.Tensor:
        """``q`` [n, heads, head_dim] of one row; key heads are the batch, the heads that share one follow."""
        n, kv_heads = q.shape[0], layer.num_kv_heads
        shared = layer.num_heads // kv_heads
        start, stop = group.key_range
        k = k_all[start:stop].transpose(0, 1).unsqueeze(1).expand(-1, shared, -1, -1)
        v = v_all[start:stop].transpose(0, 1).unsqueeze(1).expand(-1, shared, -1, -1)
        grouped = q.reshape(n, kv_heads, shared, -1).permute(1, 2, 0, 3)
        mask = group.mask.expand(kv_heads, shared, n, group.length)
        sinks = None if layer.sinks is None else layer.sinks.view(kv_heads, shared, 1, 1)
        return _attend(grouped, k, v, mask, sinks, layer).permute(2, 0, 1, 3).flatten(1, 2)

    def _padded(self, length: int) -> int:
        tail = length % KEY_BLOCK
        unit = LANES if tail <= self._tail else KEY_BLOCK
        return -(-length // unit) * unit

    def _plan_window(self, batch: ForwardBatch, window: int | None) -> WindowPlan:
        plan = WindowPlan()
        singles = np.flatnonzero(batch.query_lens == 1)
        if len(singles):
            self._plan_singles(batch, singles, window, plan)
        for row in np.flatnonzero(batch.query_lens > 1):
            plan.chunks.append(self._plan_chunk(batch, int(row), window))
        return plan

    def _plan_singles(self, batch: ForwardBatch, rows: NDArray[np.int64], window: int | None, plan: WindowPlan) -> None:
        """Rows of like length together: in one call the shortest pads to at most twice its own keys."""
        lengths = batch.context_lens[rows] + 1
        starts = _first_key(lengths - 1, window)
        padded = np.array([self._padded(int(n)) for n in lengths - starts])
        order = np.argsort(-padded, kind="stable")
        first = 0
        while first < len(order):
            length = int(padded[order[first]])
            limit = min(first + max(1, self._max_keys // length), len(order))
            stop = first
            while stop < limit and 2 * padded[order[stop]] > length:
                stop += 1
            chosen = np.sort(order[first:stop])
            first = stop
            positions = starts[chosen, None] + np.arange(length)
            last = lengths[chosen, None] - 1
            keys = self._slots(batch, rows[chosen, None], np.minimum(positions, last))
            mask = _mask(positions, last, window).reshape(len(chosen), 1, 1, length)
            everything = len(chosen) == len(batch.query_lens)
            tokens = slice(None) if everything else self._tensor(batch.last_index[rows[chosen]])
            group = Group(tokens=tokens, mask=mask.to(self._device), rows=len(chosen), length=length)
            plan.singles.append((self._tensor(keys.ravel()), group))

    def _plan_chunk(self, batch: ForwardBatch, row: int, window: int | None) -> tuple[torch.Tensor, list[Group]]:
        n, context = int(batch.query_lens[row]), int(batch.context_lens[row])
        first_token = int(batch.last_index[row]) + 1 - n
        base = int(_first_key(np.array([context]), window)[0])
        total = self._padded(context + n - base)
        keys = self._slots(batch, np.array([row]), np.minimum(base + np.arange(total), context + n - 1))
        blocks = []
        for begin in range(0, n, _QUERY_BLOCK):
            end = min(begin + _QUERY_BLOCK, n)
            start = int(_first_key(np.array([context + begin]), window)[0])
            length = self._padded(context + end - start)
            queries = np.arange(context + begin, context + end)[:, None]
            mask = _mask(start + np.arange(length)[None, :], queries, window)
            blocks.append(
                Group(
                    tokens=slice(first_token + begin, first_token + end),
                    mask=mask.to(self._device),
                    rows=0,
                    length=length,
                    key_range=(start - base, start - base + length),
                )
            )
        return self._tensor(keys), blocks

    def _slots(self, batch: ForwardBatch, rows: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._page_size == 1:
            return batch.page_table[rows, positions]
        pages, offsets = np.divmod(positions, self._page_size)
        return batch.page_table[rows, pages] * self._page_size + offsets

    def _tensor(self, array: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)


def _first_key(queries: NDArray[np.int64], window: int | None) -> NDArray[np.int64]:
    """The first key that a query at each position needs, down to a multiple of the kernel's block."""
    if window is None:
        return np.zeros_like(queries)
    return np.maximum(queries + 1 - window, 0) // KEY_BLOCK * KEY_BLOCK


def _mask(keys: NDArray[np.int64], queries: NDArray[np.int64], window: int | None) -> torch.Tensor:
    """0 where a query sees a key, minus infinity elsewhere, fp32."""
    hidden = keys > queries
    if window is not None:
        hidden |= keys <= queries - window
    return torch.zeros(hidden.shape).masked_fill_(torch.from_numpy(hidden), float("-inf"))


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, sinks: torch.Tensor | None, layer: Attention
) -> torch.Tensor:
    """softmax(q k^T scale + mask) v over 4-d tensors; soft-cap and sinks have no fused kernel and are spelled out."""
    if layer.soft_cap is None and sinks is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype), scale=layer.scale)
    scores = torch.matmul(q.float(), k.float().transpose(-1, -2)) * layer.scale
    if layer.soft_cap is not None:
        scores = torch.tanh(scores / layer.soft_cap) * layer.soft_cap
    scores = scores + mask
    if sinks is None:
        weights = scores.softmax(-1)
    else:
        top = torch.maximum(scores.amax(-1, keepdim=True), sinks)
        weights = (scores - top).exp()
        weights = weights / (weights.sum(-1, keepdim=True) + (sinks - top).exp())
    return torch.matmul(weights, v.float()).to(q.dtype)


make: Callable[[AttentionContext], TorchNativeAttention] = TorchNativeAttention
