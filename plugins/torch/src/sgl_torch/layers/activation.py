"""Gated activations by their Hugging Face name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..ops import Ops


@dataclass(frozen=True, slots=True)
class GatedActivation:
    """``act(x[:, :n]) * x[:, n:]`` by a bound op."""

    op: Any
    tanh: bool | None = None
    """Which form of gelu; None for silu."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.op(x) if self.tanh is None else self.op(x, self.tanh)
        return out


def gated_activation(name: str, ops: Ops) -> GatedActivation:
    """The activation of a ``hidden_act``. Raises ValueError for a name that is not served."""
    if name in ("silu", "swish"):
        return GatedActivation(ops.silu_mul)
    if name == "gelu":
        return GatedActivation(ops.gelu_mul, tanh=False)
    if name in ("gelu_new", "gelu_pytorch_tanh"):
        return GatedActivation(ops.gelu_mul, tanh=True)
    raise ValueError(f"hidden_act {name!r} is not served; known: silu, gelu, gelu_new, gelu_pytorch_tanh")
