"""The encoder that BERT (Devlin et al. 2019) and its kin share: learned positions, token types, post-norm layers that attend in
both directions. Modules stand under the checkpoint's names."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from sgl_core.api import ModelInfo
from sgl_torch.context import LayerContext
from sgl_torch.forward_batch import ForwardBatch
from sgl_torch.layers import BidirectionalAttention, Embedding, Linear, RowGroups, rows_by_length
from sgl_torch.ops import WeightPart
from sgl_torch.ops.reference import dense
from sgl_torch.weights import WeightSlot

from .encoder_activation import activation


class LayerNorm(nn.Module):
    """Mean and variance norm over the last axis, with weight and bias."""

    def __init__(self, size: int, context: LayerContext, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight, self.bias = (torch.empty(size, dtype=context.dtype, device=context.device) for _ in range(2))

    def weight_slots(self, prefix: str) -> Iterator[tuple[str, WeightSlot]]:
        for name, own in (("weight", self.weight), ("bias", self.bias)):
            yield f"{prefix}.{name}", _slot(own)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


def _slot(own: torch.Tensor) -> WeightSlot:
    def load(part: WeightPart) -> None:
        own.copy_(dense(part, own.dtype, own.device))

    return WeightSlot(load=load, read=lambda: own, shape=tuple(own.shape))


class Embeddings(nn.Module):
    """Word + position + token type, normed. ``first_position`` is the row of the position table where a text begins."""

    def __init__(self, info: ModelInfo, context: LayerContext, first_position: int) -> None:
        super().__init__()
        config, size = info.text_config, info.hidden_size
        self.types = int(config.get("type_vocab_size", 2))
        self.first_position = first_position
        self.word_embeddings = Embedding(info.vocab_size, size, context)
        self.position_embeddings = Embedding(int(config["max_position_embeddings"]), size, context)
        self.token_type_embeddings = Embedding(self.types, size, context)
        self.LayerNorm = LayerNorm(size, context, float(config.get("layer_norm_eps", 1e-12)))

    def forward(self, batch: ForwardBatch) -> torch.Tensor:
        words = self.word_embeddings(batch.input_ids)
        places = self.position_embeddings(batch.positions + self.first_position)
        # The sum in the order of the reference implementation, for the same rounding.
        out: torch.Tensor = self.LayerNorm(words + self.token_type_embeddings(self._types(batch)) + places)
        return out

    def _types(self, batch: ForwardBatch) -> torch.Tensor:
        """0 for the tokens of a first text, 1 from where the second of a pair begins."""
        second = batch.second_segments
        if second is None or self.types < 2 or not second.any():
            return torch.zeros_like(batch.input_ids)
        first = np.repeat(np.where(second > 0, second, batch.query_lens), batch.query_lens)
        return (batch.positions >= torch.from_numpy(first).to(batch.positions.device)).long()


class SelfAttention(nn.Module):
    """The three projections as one product, and the attention."""

    def __init__(self, info: ModelInfo, context: LayerContext, prefix: str) -> None:
        super().__init__()
        size = info.hidden_size
        self.qkv = Linear(
            size,
            3 * size,
            context,
            prefix=f"{prefix}.qkv",
            bias=True,
            parts={"query": size, "key": size, "value": size},
        )
        self.attention = BidirectionalAttention(info.num_attention_heads, size // info.num_attention_heads)

    def forward(self, x: torch.Tensor, groups: RowGroups) -> torch.Tensor:
        out: torch.Tensor = self.attention(self.qkv(x), groups)
        return out


class Output(nn.Module):
    """Projection, residual addition, norm."""

    def __init__(self, size: int, info: ModelInfo, context: LayerContext, prefix: str) -> None:
        super().__init__()
        self.dense = Linear(size, info.hidden_size, context, prefix=f"{prefix}.dense", bias=True)
        self.LayerNorm = LayerNorm(info.hidden_size, context, float(info.text_config.get("layer_norm_eps", 1e-12)))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.LayerNorm(self.dense(x) + residual)
        return out


class Layer(nn.Module):
    """Attention, then a plain feed-forward network."""

    def __init__(self, info: ModelInfo, context: LayerContext, prefix: str) -> None:
        super().__init__()
        size = int(info.text_config["intermediate_size"])
        self.act = activation(str(info.text_config.get("hidden_act", "gelu")))
        self.attention = nn.ModuleDict(
            {
                "self": SelfAttention(info, context, f"{prefix}.attention.self"),
                "output": Output(info.hidden_size, info, context, f"{prefix}.attention.output"),
            }
        )
        dense = Linear(info.hidden_size, size, context, prefix=f"{prefix}.intermediate.dense", bias=True)
        self.intermediate = nn.ModuleDict({"dense": dense})
        self.output = Output(size, info, context, f"{prefix}.output")

    def forward(self, x: torch.Tensor, groups: RowGroups) -> torch.Tensor:
        x = self.attention["output"](self.attention["self"](x, groups), x)
        out: torch.Tensor = self.output(self.act(self.intermediate["dense"](x)), x)
        return out


class Encoder(nn.Module):
    """Embeddings and layers. Raises ValueError for a variant whose arithmetic is another one."""

    def __init__(self, info: ModelInfo, context: LayerContext, prefix: str, first_position: int = 0) -> None:
        super().__init__()
        config = info.text_config
        positions = config.get("position_embedding_type", "absolute")
        if positions != "absolute" or config.get("is_decoder"):
            what = "is_decoder true" if config.get("is_decoder") else f"position_embedding_type {positions!r}"
            raise ValueError(
                f"{info.architecture} with {what} is not served; only encoders with absolute positions are"
            )
        self.embeddings = Embeddings(info, context, first_position)
        self.layers = [Layer(info, context, f"{prefix}encoder.layer.{i}") for i in range(info.num_layers)]
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(self.layers)})

    def forward(self, batch: ForwardBatch) -> torch.Tensor:
        """Hidden states [T, hidden] of prompts that are whole in this step."""
        groups = rows_by_length(batch)
        x: torch.Tensor = self.embeddings(batch)
        for layer in self.layers:
            x = layer(x, groups)
        return x
