"""Builds ModelInfo from a model's config.json: attention kind, quantization, sizes, media; no torch, no transformers.

Defaults that the published configuration classes would fill in stand in the tables of :mod:`.model_defaults`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..api.model_info import ModelInfo
from .model_defaults import (
    CONTEXT_LENGTH_DEFAULTS,
    DSA_ARCHITECTURES,
    ENCODER_DECODER_ARCHITECTURES,
    HEAD_DIM_DEFAULTS,
    MLA_ARCHITECTURES,
    MULTIMODAL_ARCHITECTURES,
    SINK_ARCHITECTURES,
    VISION_DEFAULTS,
    VISION_OPAQUE,
)

_TEXT_CONFIG_KEYS = ("thinker_config", "llm_config", "language_config", "text_config")
_CONTEXT_KEYS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")
_KV_HEAD_KEYS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
_ONE_ARCHITECTURE = {
    "longcat_flash": "LongcatFlashForCausalLM",
    "LongcatCausalLM": "LongcatFlashForCausalLM",
    "LongcatFlashNgramForCausalLM": "LongcatFlashForCausalLM",
    "multi_modality": "MultiModalityCausalLM",
}
"""Model types and architecture names whose checkpoints are served as one architecture, whatever variant they name."""

_EXPERT_KEYS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")


def model_info_from_config(
    hf_config: Mapping[str, Any],
    path: str = "",
    *,
    hf_quant_config: Mapping[str, Any] | None = None,
    draft_hf_config: Mapping[str, Any] | None = None,
    expert_weight_dtype: str = "",
    load_format: str = "auto",
    weight_bytes: int = 0,
) -> ModelInfo:
    """The facts about a model from the content of its config.json.

    ``hf_quant_config`` is the content of hf_quant_config.json, which ModelOpt checkpoints carry beside a config.json
    that does not mention quantization. ``draft_hf_config`` is the config.json of the draft model. ``load_format`` says what
    the weight files are (``gguf``, ``mistral`` ...) where that is known; ``expert_weight_dtype`` is the routed experts' dtype in
    the safetensors headers.

    Raises ValueError where config.json names no architecture.
    """
    architectures = hf_config.get("architectures") or ()
    if not architectures:
        raise ValueError(f"config.json of {path or 'the model'} names no architecture; add an 'architectures' list")
    architecture = architecture_of(hf_config)
    text = text_config_of(hf_config)
    quant = quantization_of(hf_config, text, hf_quant_config)
    heads = int(text.get("num_attention_heads") or 0)
    hidden = int(text.get("hidden_size") or 0)
    kind = attention_kind(architecture, hf_config, text)
    head_dim = int(
        text.get("head_dim")
        or HEAD_DIM_DEFAULTS.get(str(hf_config.get("model_type")))
        or (hidden // heads if heads else 0)
    )
    v_head_dim = int(text.get("v_head_dim") or head_dim)
    swa_head_dim = int(text.get("swa_head_dim") or head_dim)
    vision_layers, vision_hidden = vision_shape(hf_config)
    window = next((text[k] for k in ("sliding_window_size", "sliding_window", "window_size") if text.get(k)), None)
    return ModelInfo(
        architecture=architecture,
        path=path,
        hf_config=hf_config,
        text_config=text,
        model_type=str(hf_config.get("model_type") or ""),
        attention_kind=kind,
        quant_method=quant.get("quant_method") if quant else None,
        quant_config=quant or {},
        load_format=load_format,
        dtype=str(text.get("dtype") or text.get("torch_dtype") or hf_config.get("torch_dtype") or ""),
        vocab_size=int(text.get("vocab_size") or 0),
        hidden_size=hidden,
        num_layers=int(text.get("num_hidden_layers") or 0),
        num_attention_heads=heads,
        num_kv_heads=kv_heads(text),
        head_dim=head_dim,
        v_head_dim=v_head_dim,
        swa_head_dim=swa_head_dim,
        swa_v_head_dim=int(text.get("swa_v_head_dim") or swa_head_dim),
        context_length=context_length(hf_config, text),
        sliding_window=window,
        num_experts=int(next((text[k] for k in _EXPERT_KEYS if text.get(k)), 0)),
        layer_types=tuple(text.get("layer_types") or ()),
        tie_word_embeddings=bool(text.get("tie_word_embeddings", hf_config.get("tie_word_embeddings", False))),
        is_multimodal=architecture in MULTIMODAL_ARCHITECTURES or text is not hf_config,
        is_encoder_decoder=architecture in ENCODER_DECODER_ARCHITECTURES,
        attention_sinks=has_sinks(architecture, text),
        vision_layers=vision_layers,
        vision_hidden_size=vision_hidden,
        draft_hf_config=draft_hf_config or {},
        expert_weight_dtype=expert_weight_dtype,
        weight_bytes=weight_bytes,
    )


def architecture_of(hf_config: Mapping[str, Any]) -> str:
    """The architecture a checkpoint is served as: the first it names, or the one that stands for all of its type."""
    named = str((hf_config.get("architectures") or ("",))[0])
    return _ONE_ARCHITECTURE.get(str(hf_config.get("model_type"))) or _ONE_ARCHITECTURE.get(named, named)


def text_config_of(hf_config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of the configuration that describes the language model; the whole mapping for text models."""
    architecture = str((hf_config.get("architectures") or ("",))[0])
    if architecture.startswith("Llava") and architecture.endswith("ForCausalLM"):
        return hf_config  # original LLaVA checkpoints keep the language model's keys at the top
    for key in _TEXT_CONFIG_KEYS:
        part = hf_config.get(key)
        if isinstance(part, Mapping):
            inner = part.get("text_config") if key == "thinker_config" else None
            return inner if isinstance(inner, Mapping) else part
    return hf_config


def attention_kind(architecture: str, hf_config: Mapping[str, Any], text: Mapping[str, Any]) -> str:
    """``dsa`` (MLA with a sparse indexer), ``mla`` or ``mha``; hybrid linear models take their full layers' kind."""
    if architecture == "PixtralForConditionalGeneration":
        mla = text.get("kv_lora_rank") is not None
    elif architecture == "DeepseekVL2ForCausalLM":
        mla = bool(text.get("use_mla", True))
    else:
        mla = architecture in MLA_ARCHITECTURES
    if not mla:
        return "mha"
    return "dsa" if architecture in DSA_ARCHITECTURES and hf_config.get("index_topk") is not None else "mla"


def has_sinks(architecture: str, text: Mapping[str, Any]) -> bool:
    """Whether the attention layers learn sink logits."""
    if architecture in SINK_ARCHITECTURES:
        return True
    if architecture.startswith("MiMoV2"):
        return bool(text.get("add_swa_attention_sink_bias") or text.get("add_full_attention_sink_bias"))
    return False


def kv_heads(text: Mapping[str, Any]) -> int:
    """Key-value heads of a full attention layer (one under multi-query attention)."""
    if text.get("multi_query"):
        return 1
    for key in _KV_HEAD_KEYS:
        if text.get(key) is not None:
            return int(text[key])
    return int(text.get("num_attention_heads") or 0)


def context_length(hf_config: Mapping[str, Any], text: Mapping[str, Any]) -> int:
    """Longest sequence in tokens, with position scaling applied the way the checkpoint means it.

    ``factor`` multiplies only where the configuration states the unscaled length: neither for ``llama3`` scaling nor
    where ``original_max_position_embeddings`` is given beside it.
    """
    scaling = text.get("rope_scaling") or text.get("rope_parameters") or {}
    factor = 1.0
    if isinstance(scaling, Mapping) and "original_max_position_embeddings" not in scaling:
        kind = scaling.get("rope_type") or scaling.get("type")
        factor = 1.0 if kind == "llama3" else float(scaling.get("factor") or 1)
    for key in _CONTEXT_KEYS:
        if text.get(key) is not None:
            return int(factor * int(text[key])) - _unused_positions(hf_config)
    for owner in (text, hf_config):
        default = CONTEXT_LENGTH_DEFAULTS.get(str(owner.get("model_type")))
        if default:
            return int(factor * default)
    return 2048


def _unused_positions(hf_config: Mapping[str, Any]) -> int:
    """RoBERTa's position table has rows for no token: those up to the padding id."""
    if hf_config.get("model_type") not in ("roberta", "xlm-roberta"):
        return 0
    return int(hf_config.get("pad_token_id", 1)) + 1


def vision_shape(hf_config: Mapping[str, Any]) -> tuple[int, int]:
    """(layers, hidden size) of the vision tower, (0, 0) without one.

    A tower that does not state them is weighed as a ViT-L (24 layers of 1024), which memory planning takes as unit.
    """
    model_type = str(hf_config.get("model_type") or "")
    given = hf_config.get("vision_config")
    if not isinstance(given, Mapping):
        return VISION_DEFAULTS.get(model_type, (0, 0)) if model_type in VISION_OPAQUE else (0, 0)
    own = VISION_DEFAULTS.get(model_type) or VISION_DEFAULTS.get(str(given.get("model_type"))) or (24, 1024)
    if model_type in VISION_OPAQUE:
        return own
    return int(given.get("num_hidden_layers") or own[0]), int(given.get("hidden_size") or own[1])


def quantization_of(
    hf_config: Mapping[str, Any], text: Mapping[str, Any], hf_quant_config: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """The checkpoint's quantization section with ``quant_method`` spelled out, None for plain weights.

    ModelOpt writes only ``quant_algo`` (or the catch-all method ``modelopt``): it becomes ``modelopt_fp4``,
    ``modelopt_fp8``, ``modelopt_mixed``, ``w4afp8`` or ``mxfp8``.
    """
    section = hf_config.get("quantization_config")
    if section is None and text is not hf_config:
        section = text.get("quantization_config")
    if section is None:
        section = hf_config.get("compression_config")
    if section is None and hf_quant_config is not None:
        section = hf_quant_config.get("quantization")
    if not isinstance(section, Mapping):
        return None
    result = dict(section)
    if result.get("quant_method", "modelopt") == "modelopt":
        result.update(_modelopt_method(result))
    return result


def _modelopt_method(section: Mapping[str, Any]) -> dict[str, Any]:
    algorithm = str(section.get("quant_algo") or "")
    if algorithm == "MIXED_PRECISION":
        layers = section.get("quantized_layers") or {}
        fp4 = any(
            str(layer.get("quant_algo", "")).upper() in ("NVFP4", "W4A16_NVFP4")
            for layer in layers.values()
            if isinstance(layer, Mapping)
        )
        return {"quant_method": "modelopt_mixed" if fp4 else "w4afp8"}
    if "FP4" in algorithm:
        return {"quant_method": "modelopt_fp4"}
    if algorithm == "FP8":
        return {"quant_method": "modelopt_fp8"}
    if algorithm == "MXFP8":
        group = int(section.get("group_size") or 32)
        return {"quant_method": "mxfp8", "activation_scheme": "dynamic", "weight_block_size": [1, group]}
    return {}
