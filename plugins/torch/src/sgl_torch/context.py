"""LayerContext: what a model's layers are built with. Passed down by the constructors, never a global."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from .ops import Ops

if TYPE_CHECKING:
    from .layers.quant import QuantConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerContext:
    """``dtype`` is the compute dtype; ``context_length`` the longest sequence served, which sizes position tables.

    ``quant`` is None for unquantized (or merely GGUF-packed) weights.
    """

    ops: Ops
    dtype: torch.dtype
    device: torch.device
    context_length: int
    quant: QuantConfig | None = None
