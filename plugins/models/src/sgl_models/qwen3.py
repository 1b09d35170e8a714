"""Qwen3 (dense): the Llama body with norms on each query and key head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .llama import LlamaAttention, LlamaForCausalLM, LlamaLayer
from .qwen2 import layer_window


class Qwen3Attention(LlamaAttention):
    qk_norm = True

    @staticmethod
    def window(config: Mapping[str, Any], layer_id: int) -> int | None:
        return layer_window(config, layer_id)


class Qwen3Layer(LlamaLayer):
    attention = Qwen3Attention


class Qwen3ForCausalLM(LlamaForCausalLM):
    layer = Qwen3Layer
