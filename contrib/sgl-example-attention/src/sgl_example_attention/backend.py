"""Attention over paged keys and values in blocks, with the running softmax of FlashAttention (Dao et al. 2022, algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from sgl_torch.attention import AttentionContext
from sgl_torch.forward_batch import ForwardBatch
from sgl_torch.layers import Attention


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a step: its tokens in the batch, and the KV slot of every key it sees."""

    tokens: slice
    context: int
    slots: torch.Tensor


class ExampleAttention:
    """Rows one after the other, so that a row's result cannot depend on the others."""

    fuses_qkv = False

    def __init__(self, context: AttentionContext) -> None:
        self._pool = context.pool
        self._page_size = context.page_size
        self._dtype = context.dtype
        self._device = context.device
        self._block = int(context.options.get("block", 128))
        if self._block < 1:
            raise ValueError(f"example_attention.block must be at least 1, not {self._block}")

    def plan(self, batch: ForwardBatch) -> list[Row]:
        """Where each row's tokens and keys lie; the same for all layers."""
        rows, first = [], 0
        for index, new in enumerate(batch.query_lens.tolist()):
            context = int(batch.context_lens[index])
            positions = np.arange(context + new)
            slots = (
                batch.page_table[index][positions // self._page_size] * self._page_size + positions % self._page_size
            )
            rows.append(Row(slice(first, first + new), context, torch.from_numpy(slots).to(self._device)))
            first += new
        return rows

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer: Attention, batch: ForwardBatch
    ) -> torch.Tensor:
        """Store the step's keys and values, then attend: [T, heads, head_dim] to the same shape."""
        self._pool.store(layer.layer_id, batch.write_slots, k, v)
        plan: list[Row] = batch.attention_plan
        return torch.cat([self._row(q[row.tokens], row, layer) for row in plan])

    def forward_qkv(self, qkv: torch.Tensor, layer: Attention, batch: ForwardBatch) -> torch.Tensor:
        raise NotImplementedError("this backend takes q, k and v")

    def _row(self, q: torch.Tensor, row: Row, layer: Attention) -> torch.Tensor:
        new, shared = q.shape[0], layer.num_heads // layer.num_kv_heads
        # [kv_heads, shared * new, head_dim]: the heads that share a key head are queries of one product
        queries = q.float().view(new, layer.num_kv_heads, shared, -1).permute(1, 2, 0, 3).flatten(1, 2)
        position = torch.arange(row.context, row.context + new, device=q.device).repeat(shared)[:, None]
        top = torch.full((*queries.shape[:2], 1), float("-inf"), device=q.device)
        total = torch.zeros_like(top)
        out = torch.zeros((*queries.shape[:2], self._pool.v[layer.layer_id].shape[-1]), device=q.device)
        first = 0 if layer.window is None else max(0, row.context + 1 - layer.window) // self._block * self._block
        for start in range(first, row.context + new, self._block):
            slots = row.slots[start : start + self._block]
            keys, values = self._pool.gather(layer.layer_id, slots, self._dtype)
            scores = queries @ keys.float().permute(1, 2, 0) * layer.scale
            if layer.soft_cap is not None:
                scores = torch.tanh(scores / layer.soft_cap) * layer.soft_cap
            key = torch.arange(start, start + len(slots), device=q.device)
            hidden = key > position
            if layer.window is not None:
                hidden |= key <= position - layer.window
            scores = scores.masked_fill(hidden, float("-inf"))
            new_top = torch.maximum(top, scores.amax(-1, keepdim=True))
            # a query that has seen no key yet keeps -inf; its weights must be 0, not nan
            base = new_top.masked_fill(new_top == float("-inf"), 0.0)
            weights, shrink = (scores - base).exp(), (top - base).exp()
            total = total * shrink + weights.sum(-1, keepdim=True)
            out = out * shrink + weights @ values.float().transpose(0, 1)
            top = new_top
        return (out / total).view(layer.num_kv_heads, shared, new, -1).permute(2, 0, 1, 3).flatten(1, 2).to(q.dtype)


def make(context: AttentionContext) -> ExampleAttention:
    """The entry's target: the factory that the worker calls once."""
    return ExampleAttention(context)
