"""Llama and what shares its body: Llama 2 and 3, TinyLlama, SmolLM, Mistral (a sliding window on every layer)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from sgl_core.api import ModelInfo
from sgl_torch.context import LayerContext
from sgl_torch.forward_batch import ForwardBatch
from sgl_torch.layers import (
    Attention,
    Embedding,
    GateUpLinear,
    Linear,
    LMHead,
    QKVLinear,
    RMSNorm,
    RotaryEmbedding,
    rope_parameters,
)
from sgl_torch.ops import WeightPart
from sgl_torch.weights import LoadReport, load_weights


class LlamaAttention(nn.Module):
    """Grouped-query attention with rotary positions. Families override the class attributes and :meth:`window`."""

    qkv_bias: bool | None = None
    """None: the configuration's ``attention_bias``, which then holds for the output projection too."""
    qk_norm = False

    def __init__(
        self, info: ModelInfo, context: LayerContext, layer_id: int, rotary: RotaryEmbedding, prefix: str
    ) -> None:
        super().__init__()
        config = info.text_config
        bias = bool(config.get("attention_bias", False))
        heads, kv_heads, head_dim = info.num_attention_heads, info.num_kv_heads, info.head_dim
        qkv_bias = bias if self.qkv_bias is None else self.qkv_bias
        self.qkv_proj = QKVLinear(
            info.hidden_size, heads, kv_heads, head_dim, context, prefix=f"{prefix}.qkv_proj", bias=qkv_bias
        )
        self.o_proj = Linear(
            heads * head_dim,
            info.hidden_size,
            context,
            prefix=f"{prefix}.o_proj",
            bias=bias if self.qkv_bias is None else False,
        )
        if self.qk_norm:
            eps = float(config.get("rms_norm_eps", 1e-6))
            self.q_norm = RMSNorm(head_dim, context, eps)
            self.k_norm = RMSNorm(head_dim, context, eps)
        self.attn = Attention(
            layer_id,
            heads,
            kv_heads,
            head_dim,
            context,
            rotary=rotary,
            q_norm=self.q_norm if self.qk_norm else None,
            k_norm=self.k_norm if self.qk_norm else None,
            window=self.window(config, layer_id),
        )

    @staticmethod
    def window(config: Mapping[str, Any], layer_id: int) -> int | None:
        """How many keys a query of this layer sees; None for all."""
        return None

    def forward(self, x: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        out: torch.Tensor = self.o_proj(self.attn(self.qkv_proj(x), batch))
        return out


class LlamaMLP(nn.Module):
    """Gated feed-forward: down(act(gate(x)) * up(x))."""

    def __init__(self, info: ModelInfo, context: LayerContext, prefix: str) -> None:
        super().__init__()
        config = info.text_config
        size, bias = int(config["intermediate_size"]), bool(config.get("mlp_bias", False))
        act = str(config.get("hidden_act", "silu"))
        self.gate_up_proj = GateUpLinear(
            info.hidden_size, size, context, prefix=f"{prefix}.gate_up_proj", act=act, bias=bias
        )
        self.down_proj = Linear(size, info.hidden_size, context, prefix=f"{prefix}.down_proj", bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down_proj(self.gate_up_proj(x))
        return out


class LlamaLayer(nn.Module):
    """One block; norms are fused with the residual additions, so the residual travels beside the hidden state."""

    attention: type[LlamaAttention] = LlamaAttention

    def __init__(
        self, info: ModelInfo, context: LayerContext, layer_id: int, rotary: RotaryEmbedding, prefix: str
    ) -> None:
        super().__init__()
        eps = float(info.text_config.get("rms_norm_eps", 1e-6))
        self.self_attn = self.attention(info, context, layer_id, rotary, f"{prefix}.self_attn")
        self.mlp = LlamaMLP(info, context, f"{prefix}.mlp")
        self.input_layernorm = RMSNorm(info.hidden_size, context, eps)
        self.post_attention_layernorm = RMSNorm(info.hidden_size, context, eps)

    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None, batch: ForwardBatch
    ) -> tuple[torch.Tensor, torch.Tensor]:
        x, residual = self.input_layernorm.add(x, residual)
        x, residual = self.post_attention_layernorm.add(self.self_attn(x, batch), residual)
        return self.mlp(x), residual


class LlamaModel(nn.Module):
    """Embedding, layers, final norm."""

    def __init__(self, info: ModelInfo, context: LayerContext, layer: type[LlamaLayer]) -> None:
        super().__init__()
        self.embed_tokens = Embedding(info.vocab_size, info.hidden_size, context)
        rotary = RotaryEmbedding(rope_parameters(info.text_config, info.head_dim), context)
        self.layers = nn.ModuleList(
            layer(info, context, i, rotary, f"model.layers.{i}") for i in range(info.num_layers)
        )
        self.norm = RMSNorm(info.hidden_size, context, float(info.text_config.get("rms_norm_eps", 1e-6)))

    def forward(self, batch: ForwardBatch) -> torch.Tensor:
        x = self.embed_tokens(batch.input_ids)
        residual: torch.Tensor | None = None
        for layer in self.layers:
            x, residual = layer(x, residual, batch)
        x, _ = self.norm.add(x, residual)
        return x


class LlamaForCausalLM(nn.Module):
    """The model contract of sgl-torch: ``forward``, ``logits`` and ``load_weights``."""

    layer: type[LlamaLayer] = LlamaLayer

    def __init__(self, info: ModelInfo, context: LayerContext) -> None:
        super().__init__()
        self.info = info
        self.model = LlamaModel(info, context, self.layer)
        tied = self.model.embed_tokens if info.tie_word_embeddings else None
        self.lm_head = LMHead(info.vocab_size, info.hidden_size, context, tied=tied)

    def forward(self, batch: ForwardBatch) -> torch.Tensor:
        """Hidden states [T, hidden] after the final norm."""
        hidden: torch.Tensor = self.model(batch)
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """fp32 logits [N, vocab] of chosen rows [N, hidden]."""
        logits: torch.Tensor = self.lm_head(hidden)
        return logits

    def skip_weight(self, name: str) -> bool:
        """Whether a checkpoint tensor that the model has no place for is left out on purpose."""
        return False

    def load_weights(
        self, weights: Iterable[tuple[str, WeightPart]], progress: Callable[[int, int], None] | None = None
    ) -> LoadReport:
        """Raises WeightError for anything missing, unexpected or misshapen."""
        return load_weights(self, weights, skip=self.skip_weight, progress=progress)


class MistralAttention(LlamaAttention):
    @staticmethod
    def window(config: Mapping[str, Any], layer_id: int) -> int | None:
        return config.get("sliding_window")


class MistralLayer(LlamaLayer):
    attention = MistralAttention


class MistralForCausalLM(LlamaForCausalLM):
    layer = MistralLayer
