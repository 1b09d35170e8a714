"""Tiny random checkpoints made by transformers, with the model that made them as the oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

SIZES: dict[str, Any] = {
    "vocab_size": 199,
    "hidden_size": 48,
    "intermediate_size": 100,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
"""Odd on purpose: a vocabulary and an intermediate size that fill no vector."""

ROPES: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default", "rope_theta": 10000.0},
    "linear": {"rope_type": "linear", "factor": 2.5, "rope_theta": 10000.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
        "rope_theta": 500000.0,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "rope_theta": 10000.0},
    "longrope": {
        "rope_type": "longrope",
        "short_factor": [1.0 + 0.1 * i for i in range(8)],
        "long_factor": [2.0 + 0.5 * i for i in range(8)],
        "original_max_position_embeddings": 256,
        "factor": 4.0,
        "rope_theta": 10000.0,
    },
}

WINDOWS = {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama_tied": ("Llama", {"tie_word_embeddings": True}),
    "llama_biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama_rope_linear": ("Llama", {"rope_parameters": ROPES["linear"]}),
    "llama_rope_dynamic": ("Llama", {"rope_parameters": ROPES["dynamic"]}),
    "llama_rope_llama3": ("Llama", {"rope_parameters": ROPES["llama3"]}),
    "llama_rope_yarn": ("Llama", {"rope_parameters": ROPES["yarn"]}),
    "llama_rope_longrope": ("Llama", {"rope_parameters": ROPES["longrope"]}),
    "mistral": ("Mistral", {"sliding_window": 12}),
    "qwen2": ("Qwen2", {}),
    "qwen2_windows": ("Qwen2", {**WINDOWS, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {}),
    "qwen3_windows": ("Qwen3", {**WINDOWS, "attention_bias": True}),
    "mimo": ("Qwen2", {}),
}
"""Name to (transformers family, configuration beside :data:`SIZES`)."""


def make(name: str, folder: Path) -> Any:
    """Save the checkpoint of a case in ``folder``; returns the transformers model, fp32, in evaluation mode."""
    import transformers

    family, extra = CASES[name]
    config = getattr(transformers, f"{family}Config")(**{**SIZES, **extra})
    torch.manual_seed(sum(map(ord, name)))
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval().float()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "norm" in key:
                parameter.add_(0.2 * torch.randn_like(parameter))
            elif key.endswith("bias"):
                parameter.normal_(std=0.2)
            else:
                parameter.normal_(std=0.15)
    model.save_pretrained(folder)
    if name == "mimo":
        as_mimo(folder)
    return model


def as_mimo(folder: Path) -> None:
    """Turn a Qwen2 checkpoint into MiMo's: its architecture name, and the extra tensors its releases carry."""
    config = json.loads((folder / "config.json").read_text())
    config |= {"architectures": ["MiMoForCausalLM"], "model_type": "mimo", "num_nextn_predict_layers": 1}
    (folder / "config.json").write_text(json.dumps(config))
    path = folder / "model.safetensors"
    extra = (
        "model.mtp_layers.0.input_proj.weight",
        "model.mtp_layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.rotary_emb.inv_freq",
        "model.rotary_emb.cos_cached",
        "model.projector.0.weight",
        "model.vision_tower.patch_embed.weight",
    )
    tensors = load_file(path) | {name: torch.randn(3, 5) for name in extra}
    save_file(tensors, path, metadata={"format": "pt"})
