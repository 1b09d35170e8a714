"""What a step must do at least: bytes to read and multiply-adds, counted from the loaded model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sgl_torch.layers import Linear, LMHead
from sgl_torch.loading import attention_layers
from sgl_torch.model_runner import ModelRunner


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCost:
    """Weight bytes and matrix elements of the layers and of the head; ``kv_bytes`` a token, ``attention`` heads * head_dim summed
    over the layers."""

    layer_bytes: int
    layer_elements: int
    head_bytes: int
    head_elements: int
    kv_bytes: int
    attention: int

    @classmethod
    def of(cls, runner: ModelRunner) -> ModelCost:
        model: Any = runner.model
        layers = [module for module in model.modules() if isinstance(module, Linear)]
        heads = [module for module in model.modules() if isinstance(module, LMHead)]
        attention = attention_layers(model)
        return cls(
            layer_bytes=sum(_bytes(getattr(layer.method, "packed", None)) for layer in layers),
            layer_elements=sum(layer.in_features * layer.out_features for layer in layers),
            head_bytes=sum(_bytes(head._packed) for head in heads),
            head_elements=sum(head.shape[0] * head.shape[1] for head in heads),
            kv_bytes=sum(
                (a.num_kv_heads * a.head_dim) * (k.itemsize + v.itemsize)
                for a, k, v in zip(attention, runner.pool.k, runner.pool.v, strict=True)
            ),
            attention=sum(a.num_heads * a.head_dim for a in attention),
        )

    def decode_bytes(self, rows: int, context: int) -> int:
        """All weights once, each row's keys and values."""
        return self.layer_bytes + self.head_bytes + rows * context * self.kv_bytes

    def decode_flops(self, rows: int, context: int) -> int:
        return 2 * rows * (self.layer_elements + self.head_elements + 2 * context * self.attention)

    def prefill_flops(self, tokens: int) -> int:
        """Causal attention sees half of the square; the head serves the last token only."""
        return 2 * tokens * self.layer_elements + 2 * tokens * tokens * self.attention + 2 * self.head_elements


def _bytes(packed: Any) -> int:
    if isinstance(packed, torch.Tensor):
        return packed.nbytes
    return sum(packed.storages().values()) if hasattr(packed, "storages") else 0
