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
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Facts of single families that have no field of their own."""
