"""Gated activations by their Hugging Face name."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..ops import Ops


def gated_activation(name: str, ops: Ops) -> Callable[[torch.Tensor], torch.Tensor]:
    """``act(x[:, :n]) * x[:, n:]`` for a ``hidden_act``. Raises ValueError for a name that is not served."""
    if name in ("silu", "swish"):
        return ops.silu_mul
    if name == "gelu":
        return lambda x: ops.gelu_mul(x, False)
    if name in ("gelu_new", "gelu_pytorch_tanh"):
        return lambda x: ops.gelu_mul(x, True)
    raise ValueError(f"hidden_act {name!r} is not served; known: silu, gelu, gelu_new, gelu_pytorch_tanh")
