"""Attention of encoders: every token of a prompt sees every other. Prompts come whole, so nothing is kept in the KV pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

if TYPE_CHECKING:
    from ..forward_batch import ForwardBatch

RowGroups: TypeAlias = Sequence[tuple[int, torch.Tensor | slice]]
"""(length, tokens) of the rows of each length: the tokens [rows * length] of a group, row after row."""


def rows_by_length(batch: ForwardBatch) -> RowGroups:
    """The rows of a step, those of one length together; made once a step, for all layers."""
    lengths = np.unique(batch.query_lens).tolist()
    if len(lengths) == 1:
        return [(lengths[0], slice(None))]
    first = batch.last_index + 1 - batch.query_lens
    groups: list[tuple[int, torch.Tensor | slice]] = []
    for length in lengths:
        tokens = first[batch.query_lens == length, None] + np.arange(length)
        groups.append((length, torch.from_numpy(tokens.ravel()).to(batch.input_ids.device)))
    return groups


class BidirectionalAttention(nn.Module):
    """softmax(q k^T / sqrt(head_dim)) v over each row of a step by itself. Nothing is padded, so a row's result does not
    depend on the others."""

    def __init__(self, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = head_dim

    def forward(self, qkv: torch.Tensor, groups: RowGroups) -> torch.Tensor:
        """``qkv`` [T, 3 * heads * head_dim] to [T, heads * head_dim]."""
        total = qkv.shape[0]
        out = torch.empty((total, self.num_heads * self.head_dim), dtype=qkv.dtype, device=qkv.device)
        for length, tokens in groups:
            rows = qkv[tokens].view(-1, length, 3, self.num_heads, self.head_dim)
            q, k, v = rows.permute(2, 0, 3, 1, 4)
            out[tokens] = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, out.shape[1])
        return out
