"""GGUF weights under their Hugging Face names; blocks stay in the mapped file, llama's q and k rows get HF's order back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from sgl_core.api.checkpoint import GgufFile, GgufTensor, read_gguf

from .dequantize import can_dequantize
from .quantized import LoadError, QuantizedTensor

if TYPE_CHECKING:
    from sgl_core.api.checkpoint import ModelFiles

    from .iterate import LoadRequest

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_BLOCK = re.compile(r"^blk\.(\d+)\.([a-z_]+)\.(weight|bias)$")
# Tables that follow from the configuration.
_DERIVED = re.compile(r"(^|\.)(rope_freqs|attn_rot_embd)\.weight$")
# The converter interleaves the two halves of each rotary head for these architectures.
_PERMUTED = frozenset({"llama", "mistral"})
_DENSE: dict[str, torch.dtype] = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F64": torch.float64,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
}


def load(files: ModelFiles, request: LoadRequest) -> Iterator[tuple[str, torch.Tensor | QuantizedTensor]]:
    """The tensors of all shards. Raises :class:`LoadError` naming file, tensor and type id where a type cannot be read."""
    shards = files.gguf or tuple(read_gguf(path) for path in files.weights)
    if not shards:
        raise LoadError(f"{files.path}: no .gguf file here, which the load format 'gguf' needs")
    heads = _heads(files)
    total = sum(tensor.nbytes for shard in shards for tensor in shard.tensors.values())
    done = 0
    seen: dict[str, str] = {}
    for shard in shards:
        data = shard.map()
        permuted = shard.architecture in _PERMUTED or shards[0].architecture in _PERMUTED
        for tensor in shard.tensors.values():
            done += tensor.nbytes
            if tensor.name in seen:
                raise LoadError(f"{shard.path}: tensor {tensor.name!r} is also in {seen[tensor.name]}")
            seen[tensor.name] = str(shard.path)
            name = huggingface_name(tensor.name)
            if name is not None:
                yield name, _read(shard, data, tensor, heads if permuted else {})
            if request.progress is not None:
                request.progress("loading weights", done, total)


def huggingface_name(name: str) -> str | None:
    """The Hugging Face name of a GGUF tensor; None for a derived table, the name itself where none is known."""
    if _DERIVED.search(name):
        return None
    stem, _, kind = name.rpartition(".")
    if stem in _TOP:
        return f"{_TOP[stem]}.{kind}"
    block = _BLOCK.match(name)
    if block is None or block[2] not in _LAYER:
        return name  # whoever places the tensors refuses it by this name
    return f"model.layers.{block[1]}.{_LAYER[block[2]]}.{block[3]}"


def _heads(files: ModelFiles) -> dict[str, int]:
    """Rotary heads by projection."""
    heads = int(files.config["num_attention_heads"])
    return {"attn_q": heads, "attn_k": int(files.config.get("num_key_value_heads") or heads)}


def _read(
    shard: GgufFile, data: NDArray[np.uint8], tensor: GgufTensor, heads: dict[str, int]
) -> torch.Tensor | QuantizedTensor:
    raw = data[tensor.offset : tensor.offset + tensor.nbytes]
    block = _BLOCK.match(tensor.name)
    count = heads.get(block[2]) if block is not None else None
    order = None if count is None else rotary_order(tensor.shape[0], count)
    dtype = _DENSE.get(tensor.type.name)
    if dtype is not None:
        dense = torch.from_numpy(raw).view(dtype).reshape(tensor.shape)
        return dense if order is None else dense[torch.from_numpy(order)]
    if not can_dequantize(tensor.type):
        raise LoadError(
            f"{shard.path}: tensor {tensor.name!r} has the ggml type {tensor.type.name} (id {tensor.type.id}), "
            "which sgl cannot read; use a file in another quantization"
        )
    row_bytes = tensor.shape[-1] // tensor.type.block * tensor.type.block_bytes
    quantized = QuantizedTensor(raw.reshape(-1, row_bytes), tensor.type.id, tensor.shape)
    return quantized if order is None else quantized.rows(order)


def rotary_order(rows: int, heads: int) -> NDArray[Any]:
    """For each Hugging Face row of a q or k projection the GGUF row that holds it.

    GGUF pairs the two elements that one rotation mixes as neighbours, (0, 1), (2, 3) ...; Hugging Face keeps them half a
    head apart, (0, d/2), (1, d/2 + 1) ....
    """
    half = rows // heads // 2
    return np.arange(rows).reshape(heads, half, 2).swapaxes(1, 2).reshape(-1)
