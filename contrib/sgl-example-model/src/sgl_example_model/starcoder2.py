"""StarCoder2 (Lozhkov et al. 2024): grouped-query attention with rotary positions, layer norms, a plain MLP, biases everywhere.

Built of sgl_torch's public layers. A model states its modules under the checkpoint's names and three methods: ``forward``,
``logits`` and ``load_weights``; pages, batching and sampling are not its business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import nn

from sgl_core.api import ModelInfo
from sgl_torch.context import LayerContext
from sgl_torch.forward_batch import ForwardBatch
from sgl_torch.layers import Attention, Embedding, Linear, LMHead, QKVLinear, RotaryEmbedding, rope_parameters
from sgl_torch.ops import WeightPart
from sgl_torch.ops.reference import dense
from sgl_torch.weights import LoadReport, WeightSlot, load_weights


class LayerNorm(nn.Module):
    """A layer that sgl_torch does not have: it owns two parameters and says which checkpoint tensors they come from."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __init__(self, size: int, context: LayerContext, eps: float) -> None:
        super().__init__()
        self.eps = eps
        for name in ("weight", "bias"):
            empty = torch.empty(size, dtype=context.dtype, device=context.device)
            self.register_buffer(name, empty, persistent=False)

    def weight_slots(self, prefix: str) -> Iterator[tuple[str, WeightSlot]]:
        for name in ("weight", "bias"):
            yield f"{prefix}.{name}", self._slot(getattr(self, name))

    @staticmethod
    def _slot(own: torch.Tensor) -> WeightSlot:
        def load(part: WeightPart) -> None:
            own.copy_(dense(part, own.dtype, own.device))

        return WeightSlot(load=load, read=lambda: own, shape=tuple(own.shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class SelfAttention(nn.Module):
    """Projections around sgl_torch's attention layer, which knows pages and backends."""

    def __init__(
        self, info: ModelInfo, context: LayerContext, layer_id: int, rotary: RotaryEmbedding, prefix: str
    ) -> None:
        super().__init__()
        heads, kv_heads, size = info.num_attention_heads, info.num_kv_heads, info.head_dim
        bias = bool(info.text_config.get("use_bias", True))
        self.qkv_proj = QKVLinear(
            info.hidden_size, heads, kv_heads, size, context, prefix=f"{prefix}.qkv_proj", bias=bias
        )
        self.o_proj = Linear(heads * size, info.hidden_size, context, prefix=f"{prefix}.o_proj", bias=bias)
        window = info.text_config.get("sliding_window")
        self.attn = Attention(layer_id, heads, kv_heads, size, context, rotary=rotary, window=window)

    def forward(self, x: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        out: torch.Tensor = self.o_proj(self.attn(self.qkv_proj(x), batch))
        return out


class MLP(nn.Module):
    """c_proj(gelu(c_fc(x))) with the tanh form of gelu."""

    def __init__(self, info: ModelInfo, context: LayerContext, prefix: str) -> None:
        super().__init__()
        size, bias = int(info.text_config["intermediate_size"]), bool(info.text_config.get("use_bias", True))
        self.c_fc = Linear(info.hidden_size, size, context, prefix=f"{prefix}.c_fc", bias=bias)
        self.c_proj = Linear(size, info.hidden_size, context, prefix=f"{prefix}.c_proj", bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))
        return out


class Layer(nn.Module):
    """One block: x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, info: ModelInfo, context: LayerContext, layer_id: int, rotary: RotaryEmbedding) -> None:
        super().__init__()
        prefix = f"model.layers.{layer_id}"
        eps = float(info.text_config.get("norm_epsilon", 1e-5))
        self.self_attn = SelfAttention(info, context, layer_id, rotary, f"{prefix}.self_attn")
        self.mlp = MLP(info, context, f"{prefix}.mlp")
        self.input_layernorm = LayerNorm(info.hidden_size, context, eps)
        self.post_attention_layernorm = LayerNorm(info.hidden_size, context, eps)

    def forward(self, x: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), batch)
        out: torch.Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Body(nn.Module):
    """Embedding, layers, final norm."""

    def __init__(self, info: ModelInfo, context: LayerContext) -> None:
        super().__init__()
        self.embed_tokens = Embedding(info.vocab_size, info.hidden_size, context)
        rotary = RotaryEmbedding(rope_parameters(info.text_config, info.head_dim), context)
        self.layers = nn.ModuleList(Layer(info, context, i, rotary) for i in range(info.num_layers))
        self.norm = LayerNorm(info.hidden_size, context, float(info.text_config.get("norm_epsilon", 1e-5)))

    def forward(self, batch: ForwardBatch) -> torch.Tensor:
        x: torch.Tensor = self.embed_tokens(batch.input_ids)
        for layer in self.layers:
            x = layer(x, batch)
        out: torch.Tensor = self.norm(x)
        return out


class Starcoder2ForCausalLM(nn.Module):
    """The model contract of sgl-torch."""

    def __init__(self, info: ModelInfo, context: LayerContext) -> None:
        super().__init__()
        self.info = info
        self.model = Body(info, context)
        tied = self.model.embed_tokens if info.tie_word_embeddings else None
        self.lm_head = LMHead(info.vocab_size, info.hidden_size, context, tied=tied)

    def forward(self, batch: ForwardBatch) -> torch.Tensor:
        """Hidden states [T, hidden] after the final norm."""
        out: torch.Tensor = self.model(batch)
        return out

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """fp32 logits [N, vocab] of chosen rows [N, hidden]."""
        out: torch.Tensor = self.lm_head(hidden)
        return out

    def load_weights(
        self, weights: Iterable[tuple[str, WeightPart]], progress: Callable[[int, int], None] | None = None
    ) -> LoadReport:
        """Raises WeightError for anything missing, unexpected or misshapen."""
        return load_weights(self, weights, progress=progress)
