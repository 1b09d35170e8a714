"""ModelInfo: what the model is, as plain data derived from its configuration files without torch or transformers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """One model as configuration rules and plans see it.

    ``path`` is a local folder or file. ``hf_config`` is the whole config.json (for GGUF: its equivalent made from the
    file's metadata); ``text_config`` the part that describes the language model (the same mapping for text models).
    Sizes count elements. ``dtype`` is the checkpoint's (``bfloat16`` ...). Everything a rule needs stands here.
    """

    architecture: str
    path: str = ""
    hf_config: Mapping[str, Any] = field(default_factory=dict)
    text_config: Mapping[str, Any] = field(default_factory=dict)
    model_type: str = ""
    attention_kind: str = "mha"
    quant_method: str | None = None
    quant_config: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = ""
    load_format: str = "auto"
    vocab_size: int = 0
    hidden_size: int = 0
    num_layers: int = 0
    num_attention_heads: int = 0
    num_kv_heads: int = 0
    head_dim: int = 0
    v_head_dim: int = 0
    context_length: int = 0
    sliding_window: int | None = None
    num_experts: int = 0
    layer_types: tuple[str, ...] = ()
    tie_word_embeddings: bool = False
    is_multimodal: bool = False
    is_embedding: bool = False
    weight_bytes: int = 0
    swa_head_dim: int = 0
    """Head size of the sliding-window layers (``head_dim`` where they do not differ)."""
    swa_v_head_dim: int = 0
    """Value head size of the sliding-window layers."""
    attention_sinks: bool = False
    """The attention kernel has to add learned sink logits, which not every kernel can."""
    is_encoder_decoder: bool = False
    vision_layers: int = 0
    """Layers of the vision tower as memory planning weighs it; 0 where the model has no vision configuration."""
    vision_hidden_size: int = 0
    draft_hf_config: Mapping[str, Any] = field(default_factory=dict)
    """The config.json of the speculative draft model, where the configuration names one; empty otherwise."""
    expert_weight_dtype: str = ""
    """Dtype of the routed experts read from safetensors headers (``F8_E4M3``, ``U8`` ...); empty where not read."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Facts of single families that have no field of their own."""
