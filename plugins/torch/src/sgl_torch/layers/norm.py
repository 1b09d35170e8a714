"""Normalization layers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from ..context import LayerContext
from ..ops import WeightPart
from ..ops.reference import dense
from ..weights import WeightSlot


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last axis; :meth:`add` fuses the residual addition before it."""

    weight: torch.Tensor

    def __init__(self, size: int, context: LayerContext, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self._norm = context.ops.rms_norm
        self._add_norm = context.ops.add_rms_norm
        self.register_buffer("weight", torch.empty(size, dtype=context.dtype, device=context.device), persistent=False)

    def weight_slots(self, prefix: str) -> Iterator[tuple[str, WeightSlot]]:
        weight = self.weight
        yield (
            f"{prefix}.weight",
            WeightSlot(
                load=self._load,
                read=lambda: weight,
                shape=tuple(weight.shape),
            ),
        )

    def _load(self, tensor: WeightPart) -> None:
        self.weight.copy_(dense(tensor, self.weight.dtype, self.weight.device))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._norm(x, self.weight, self.eps)

    def add(self, x: torch.Tensor, residual: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """(norm(x + residual), x + residual); without a residual (norm(x), x)."""
        if residual is None:
            return self._norm(x, self.weight, self.eps), x
        return self._add_norm(x, residual, self.weight, self.eps)
