"""Rotary position embedding: one table of cosines and sines per model, shared by its layers."""

from __future__ import annotations

import torch

from ..context import LayerContext
from .rope_scaling import RopeParameters, dynamic_frequencies, frequencies


class RotaryEmbedding:
    """Rotates queries and keys. ``table`` is [context_length, rotary_dim] fp32: cosines, then sines.

    Under ``dynamic`` scaling position p beyond the trained context turns with the frequencies of a sequence of p + 1 tokens:
    what token-by-token decoding gives, and independent of how a prompt is cut into chunks or shared between requests.
    """

    def __init__(self, params: RopeParameters, context: LayerContext, *, interleaved: bool = False) -> None:
        self.params = params
        self.interleaved = interleaved
        self.table = rope_table(params, context.context_length).to(context.device)
        self._rope = context.ops.rope

    def __call__(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """``x`` [T, heads, head_dim] rotated by ``positions`` [T]."""
        return self._rope(x, self.table, positions, self.interleaved)


def rope_table(params: RopeParameters, context_length: int) -> torch.Tensor:
    """[context_length, rotary_dim] fp32."""
    inverse, factor = frequencies(params, context_length)
    positions = torch.arange(context_length, dtype=torch.float32)
    if params.kind == "dynamic":
        angles = positions.unsqueeze(1) * dynamic_frequencies(params, positions + 1)
    else:
        angles = torch.outer(positions, inverse)
    return torch.cat((angles.cos() * factor, angles.sin() * factor), dim=-1)
