"""GGUF metadata to the mapping that the same model's config.json would hold, so nothing downstream knows the difference."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .gguf_file import GgufError, GgufFile

# GGUF architecture -> (Hugging Face architecture, model_type).
_ARCHITECTURES = {
    "llama": ("LlamaForCausalLM", "llama"),
    "mistral": ("MistralForCausalLM", "mistral"),
    "qwen2": ("Qwen2ForCausalLM", "qwen2"),
    "qwen3": ("Qwen3ForCausalLM", "qwen3"),
}
# End-of-turn tokens by which chat models finish an answer; files written before ``eot_token_id`` existed only name them.
_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end_of_text|>")
_CONTROL = 3


def config_from_gguf(shards: Sequence[GgufFile]) -> dict[str, Any]:
    """The config of a GGUF model, given the headers of its shards (the first one carries the metadata).

    Raises :class:`GgufError` for an architecture that is not mapped or a key that is missing.
    """
    head = shards[0]
    names = _ARCHITECTURES.get(head.architecture)
    if names is None:
        known = ", ".join(sorted(_ARCHITECTURES))
        raise GgufError(
            f"{head.path}: GGUF architecture {head.architecture!r} is not supported (supported: {known}); "
            "use the model's safetensors checkpoint if its architecture is served"
        )
    tensors = {name: tensor for shard in shards for name, tensor in shard.tensors.items()}
    read = _Keys(head)
    hidden, heads = read.integer("embedding_length"), read.integer("attention.head_count")
    embedding = tensors.get("token_embd.weight")
    if embedding is None:
        raise GgufError(f"{head.path}: the tensor 'token_embd.weight' is missing")
    config: dict[str, Any] = {
        "architectures": [names[0]],
        "model_type": names[1],
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": read.integer("feed_forward_length"),
        "num_hidden_layers": read.integer("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": read.integer("attention.head_count_kv", heads),
        "head_dim": _head_dim(read, hidden, heads),
        "max_position_embeddings": read.integer("context_length"),
        "rms_norm_eps": _short(read.number("attention.layer_norm_rms_epsilon", 1e-6)),
        "rope_theta": _short(read.number("rope.freq_base", 10_000.0)),
        "rope_scaling": _rope_scaling(head, read),
        "vocab_size": embedding.shape[0],
        "tie_word_embeddings": "output.weight" not in tensors,
        "attention_bias": "blk.0.attn_q.bias" in tensors,
        "mlp_bias": "blk.0.ffn_up.bias" in tensors,
        "torch_dtype": _dtype(tensor.type.name for tensor in tensors.values()),
    }
    window = read.integer("attention.sliding_window", 0)
    if window:
        config |= {"sliding_window": window, "use_sliding_window": True}
    config |= _special_ids(head)
    counts = Counter(tensor.type.name for tensor in tensors.values() if tensor.type.quantized)
    if counts:
        config["quantization_config"] = {"quant_method": "gguf", "types": dict(counts.most_common())}
    return config


def generation_config_from_gguf(head: GgufFile) -> dict[str, Any]:
    """The part of generation_config.json that GGUF knows: the ids that end an answer."""
    ids = end_token_ids(head.metadata)
    return {"eos_token_id": ids} if ids else {}


def end_token_ids(metadata: Mapping[str, Any]) -> list[int]:
    """End of sequence, end of turn and end of message, and the control tokens that bear a well-known turn-end name."""
    keys = ("eos_token_id", "eot_token_id", "eom_token_id")
    ids = [int(metadata[f"tokenizer.ggml.{key}"]) for key in keys if f"tokenizer.ggml.{key}" in metadata]
    tokens: Sequence[str] = metadata.get("tokenizer.ggml.tokens", [])
    types: list[int] = metadata.get("tokenizer.ggml.token_type", [])
    control = [index for index, kind in enumerate(types[: len(tokens)]) if kind == _CONTROL]
    ids += [index for index in control if tokens[index] in _TURN_ENDS]
    return list(dict.fromkeys(ids))


class _Keys:
    """Reads ``<architecture>.<key>`` of the metadata."""

    def __init__(self, file: GgufFile) -> None:
        self.file = file

    def number(self, key: str, default: float | None = None) -> float:
        value = self.file.metadata.get(f"{self.file.architecture}.{key}", default)
        if value is None:
            raise GgufError(f"{self.file.path}: the metadata key '{self.file.architecture}.{key}' is missing")
        if isinstance(value, list):
            if len(set(value)) != 1:
                raise GgufError(
                    f"{self.file.path}: '{self.file.architecture}.{key}' differs between layers, which is not supported"
                )
            value = value[0]
        return float(value)

    def integer(self, key: str, default: int | None = None) -> int:
        return int(self.number(key, default))

    def text(self, key: str) -> str:
        return str(self.file.metadata.get(f"{self.file.architecture}.{key}", ""))


def _head_dim(read: _Keys, hidden: int, heads: int) -> int:
    return read.integer("attention.key_length", 0) or read.integer("rope.dimension_count", 0) or hidden // heads


def _short(value: float) -> float:
    """The shortest decimal that rounds to the same float32: 1e-05 instead of 9.999999747378752e-06."""
    return float(str(np.float32(value)))


def _dtype(names: Any) -> str:
    """The float type of an unquantized file; quantized blocks are exact in float32 only."""
    kinds = set(names)
    if kinds <= {"F32", "F16"} and "F16" in kinds:
        return "float16"
    if kinds <= {"F32", "BF16"} and "BF16" in kinds:
        return "bfloat16"
    return "float32"


def _special_ids(head: GgufFile) -> dict[str, Any]:
    keys = {"bos_token_id": "bos_token_id", "eos_token_id": "eos_token_id", "padding_token_id": "pad_token_id"}
    found = {ours: head.metadata.get(f"tokenizer.ggml.{theirs}") for theirs, ours in keys.items()}
    return {key: int(value) for key, value in found.items() if value is not None}


def _rope_scaling(head: GgufFile, read: _Keys) -> dict[str, Any] | None:
    kind = read.text("rope.scaling.type")
    if kind == "linear":
        return {"rope_type": "linear", "factor": _short(read.number("rope.scaling.factor"))}
    if kind == "yarn":
        scaling: dict[str, Any] = {"rope_type": "yarn", "factor": _short(read.number("rope.scaling.factor"))}
        original = read.integer("rope.scaling.original_context_length", 0)
        if original:
            scaling["original_max_position_embeddings"] = original
        for theirs, ours in (
            ("yarn_beta_fast", "beta_fast"),
            ("yarn_beta_slow", "beta_slow"),
            ("attn_factor", "attention_factor"),
        ):
            value = read.number(f"rope.scaling.{theirs}", math.nan)
            if not math.isnan(value):
                scaling[ours] = _short(value)
        return scaling
    if kind not in ("", "none"):
        raise GgufError(f"{head.path}: rope scaling {kind!r} is not supported (linear and yarn are)")
    if "rope_freqs.weight" in head.tensors:
        return _llama3_scaling(head, read)
    return None


def _llama3_scaling(head: GgufFile, read: _Keys) -> dict[str, Any]:
    """Recover the Llama 3 parameters from the per-frequency divisors that GGUF stores instead of them.

    Formula: 1 below the high-frequency wavelength, ``factor`` above the low-frequency one, and between them
    ``1 / ((1 - s) / factor + s)`` with ``s = (original / wavelength - low) / (high - low)``.
    """
    tensor = head.tensors["rope_freqs.weight"]
    if tensor.type.name != "F32":
        raise GgufError(f"{head.path}: tensor 'rope_freqs.weight' must be F32, not {tensor.type.name}")
    stored = head.map()[tensor.offset : tensor.offset + tensor.nbytes].view("<f4").astype(np.float64)
    theta, dim = read.number("rope.freq_base", 10_000.0), 2 * len(stored)
    wavelength = 2 * math.pi * theta ** (np.arange(0, dim, 2) / dim)
    factor, low, high = float(stored.max()), 1.0, 4.0
    for original in (8192, 4096, 2048, 16384, 32768, 65536, 131072):
        smooth = np.clip((original / wavelength - low) / (high - low), 0.0, 1.0)
        if np.allclose(1.0 / ((1.0 - smooth) / factor + smooth), stored, rtol=1e-4):
            return {
                "rope_type": "llama3",
                "factor": _short(factor),
                "low_freq_factor": low,
                "high_freq_factor": high,
                "original_max_position_embeddings": original,
            }
    raise GgufError(f"{head.path}: the frequency factors of 'rope_freqs.weight' follow no known rope scaling")
