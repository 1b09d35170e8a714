"""Qwen2 and Qwen2.5: the Llama body with biases on query, key and value, and windows on the upper layers where configured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .llama import LlamaAttention, LlamaForCausalLM, LlamaLayer


def layer_window(config: Mapping[str, Any], layer_id: int) -> int | None:
    """The window of a Qwen layer: ``layer_types`` decides where given, else layers from ``max_window_layers`` on have it."""
    if not config.get("use_sliding_window") or config.get("sliding_window") is None:
        return None
    layer_types = config.get("layer_types")
    if layer_types:
        slides = layer_types[layer_id] == "sliding_attention"
    else:
        slides = layer_id >= int(config.get("max_window_layers", 28))
    return int(config["sliding_window"]) if slides else None


class Qwen2Attention(LlamaAttention):
    qkv_bias = True

    @staticmethod
    def window(config: Mapping[str, Any], layer_id: int) -> int | None:
        return layer_window(config, layer_id)


class Qwen2Layer(LlamaLayer):
    attention = Qwen2Attention


class Qwen2ForCausalLM(LlamaForCausalLM):
    layer = Qwen2Layer
