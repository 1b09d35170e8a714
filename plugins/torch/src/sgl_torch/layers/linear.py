"""Linear layers: one matrix, or several of the checkpoint stacked by rows and multiplied at once (qkv, gate-up)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import nn

from ..context import LayerContext
from ..weights import WeightSlot
from .activation import gated_activation
from .quant import LinearMethod, PackedMethod


class Linear(nn.Module):
    """``y = x W^T + b``. ``prefix`` is the layer's path, by which a quantization decides how it is kept.

    ``parts`` maps checkpoint names that lie beside the layer (``q_proj``) to their output sizes; without it the layer has
    the checkpoint name of its own path.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        context: LayerContext,
        *,
        prefix: str,
        bias: bool = False,
        parts: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.has_bias = bias
        self.device = context.device
        self.part_names = tuple(parts or ())
        self.part_sizes = tuple(parts.values()) if parts else (out_features,)
        if sum(self.part_sizes) != out_features:
            raise ValueError(f"{prefix}: parts of {self.part_sizes} rows do not make {out_features}")
        method = context.quant.method_for(self, prefix, context) if context.quant else None
        self.method: LinearMethod = method or PackedMethod(context.ops, context.dtype)

    def weight_slots(self, prefix: str) -> Iterator[tuple[str, WeightSlot]]:
        parent = prefix.rpartition(".")[0]
        for part in range(len(self.part_sizes)):
            path = f"{parent}.{self.part_names[part]}" if self.part_names else prefix
            for suffix, slot in self.method.slots(self, part):
                yield f"{path}.{suffix}", slot

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.method.apply(self, x)


class QKVLinear(Linear):
    """Query, key and value projections at once: [T, hidden] to [T, (heads + 2 kv_heads) * head_dim]."""

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        context: LayerContext,
        *,
        prefix: str,
        bias: bool = False,
    ) -> None:
        sizes = {"q_proj": num_heads * head_dim, "k_proj": num_kv_heads * head_dim, "v_proj": num_kv_heads * head_dim}
        super().__init__(hidden_size, sum(sizes.values()), context, prefix=prefix, bias=bias, parts=sizes)


class GateUpLinear(Linear):
    """Gate and up projections and what joins them: [T, hidden] to ``act(gate) * up`` [T, intermediate]."""

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        context: LayerContext,
        *,
        prefix: str,
        act: str,
        bias: bool = False,
    ) -> None:
        sizes = {"gate_proj": intermediate_size, "up_proj": intermediate_size}
        super().__init__(hidden_size, 2 * intermediate_size, context, prefix=prefix, bias=bias, parts=sizes)
        self.activation = gated_activation(act, context.ops)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        at_once = getattr(self.method, "apply_gated", None)
        if at_once is None:
            return self.activation(self.method.apply(self, x))
        out: torch.Tensor = at_once(self, x, self.activation)
        return out
