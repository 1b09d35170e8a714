"""Tiny Llama checkpoints in each quantized layout, written here from the layouts' descriptions, and the dense model as the oracle."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

SIZES: dict[str, Any] = {
    "vocab_size": 199,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

Quantized = tuple[dict[str, torch.Tensor], torch.Tensor]
"""A matrix's checkpoint tensors by suffix, and the dense matrix that they stand for."""


@dataclass(frozen=True)
class Layout:
    """``config`` is the quantization_config; ``quantize`` maps a weight [rows, columns]."""

    config: dict[str, Any]
    quantize: Callable[[torch.Tensor], Quantized]


def grouped(weight: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes 0 to 15 [rows, columns], scales and zero points [rows, groups], by the extremes of each group."""
    rows, columns = weight.shape
    cut = weight.reshape(rows, columns // group, group)
    low, high = cut.amin(-1).clamp(max=0), cut.amax(-1).clamp(min=0)
    scales = ((high - low) / 15).half().float()
    zeros = (-low / scales).round().clamp(1, 15)
    codes = ((cut / scales[..., None]).round() + zeros[..., None]).clamp(0, 15)
    return codes.reshape(rows, columns).int(), scales, zeros.int()


def dense(codes: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return (codes - zeros[:, index]).float() * scales[:, index]


def words(values: torch.Tensor, order: tuple[int, ...] = tuple(range(8))) -> torch.Tensor:
    """Eight 4-bit numbers of the last axis in a 32-bit word; ``order[i]`` is the number in nibble ``i``."""
    eights = values.long().reshape(*values.shape[:-1], -1, 8)
    out = sum(eights[..., number] << 4 * nibble for nibble, number in enumerate(order))
    assert isinstance(out, torch.Tensor)
    return torch.where(out >= 1 << 31, out - (1 << 32), out).int()


def gptq(act_order: bool = False, version: str = "gptq", group: int = 32) -> Layout:
    def quantize(weight: torch.Tensor) -> Quantized:
        columns = weight.shape[1]
        width = group if group > 0 else columns
        order = torch.randperm(columns) if act_order else torch.arange(columns)
        codes, scales, zeros = grouped(weight[:, order], width)
        codes, index = codes[:, order.argsort()], (torch.arange(columns) // width)[order.argsort()]
        tensors = {
            "qweight": words(codes).T.contiguous(),
            "qzeros": words((zeros - int(version == "gptq")).T.contiguous()),
            "scales": scales.T.contiguous().half(),
            "g_idx": index.int(),
            "bias": torch.zeros(len(weight), dtype=torch.float16),
        }
        return tensors, dense(codes, scales, zeros, index)

    config = {
        "quant_method": "gptq",
        "bits": 4,
        "group_size": group,
        "desc_act": act_order,
        "checkpoint_format": version,
    }
    return Layout(config, quantize)


def awq() -> Layout:
    def quantize(weight: torch.Tensor) -> Quantized:
        codes, scales, zeros = grouped(weight, 32)
        order = (0, 2, 4, 6, 1, 3, 5, 7)
        tensors = {
            "qweight": words(codes.T.contiguous(), order),
            "qzeros": words(zeros.T.contiguous(), order),
            "scales": scales.T.contiguous().half(),
        }
        return tensors, dense(codes, scales, zeros, torch.arange(weight.shape[1]) // 32)

    return Layout({"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}, quantize)


def packed(symmetric: bool) -> Layout:
    def quantize(weight: torch.Tensor) -> Quantized:
        codes, scales, zeros = grouped(weight, 32)
        if symmetric:
            zeros = torch.full_like(zeros, 8)
        tensors = {
            "weight_packed": words(codes),
            "weight_scale": scales,
            "weight_shape": torch.tensor(weight.shape, dtype=torch.int64),
        }
        if not symmetric:
            tensors["weight_zero_point"] = words(zeros.T.contiguous()).T.contiguous()
        return tensors, dense(codes, scales, zeros, torch.arange(weight.shape[1]) // 32)

    scheme = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": symmetric}
    return Layout(compressed("pack-quantized", scheme), quantize)


def int8(config: dict[str, Any]) -> Layout:
    def quantize(weight: torch.Tensor) -> Quantized:
        scale = weight.abs().amax(1, keepdim=True) / 127
        codes = (weight / scale).round().to(torch.int8)
        return {"weight": codes, "weight_scale": scale}, codes.float() * scale

    return Layout(config, quantize)


def fp8(by: str, config: dict[str, Any]) -> Layout:
    """One scale by ``tensor``, by ``row``, or by ``block`` of 32 x 32."""

    def quantize(weight: torch.Tensor) -> Quantized:
        rows, columns = weight.shape
        name = "weight_scale"
        if by == "block":
            name = "weight_scale_inv"
            cut = weight.reshape(rows // 32, 32, columns // 32, 32)
            scale = cut.abs().amax((1, 3)) / 448
            spread = scale.repeat_interleave(32, 0).repeat_interleave(32, 1)
        else:
            scale = (weight.abs().amax() if by == "tensor" else weight.abs().amax(1, keepdim=True)) / 448
            spread = scale
        codes = (weight / spread).to(torch.float8_e4m3fn)
        return {"weight": codes, name: scale, "input_scale": torch.tensor(0.5)}, codes.float() * spread

    return Layout(config, quantize)


def compressed(name: str, weights: dict[str, Any]) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights, "format": name}
    return {
        "quant_method": "compressed-tensors",
        "format": name,
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
    }


CHANNEL = {"num_bits": 8, "strategy": "channel", "symmetric": True}
LAYOUTS = {
    "gptq": gptq(),
    "gptq_v2": gptq(version="gptq_v2"),
    "gptq_one_group": gptq(group=-1),
    "gptq_act_order": gptq(act_order=True),
    "awq": awq(),
    "packed_symmetric": packed(True),
    "packed_zeros": packed(False),
    "int8": int8({"quant_method": "w8a8_int8"}),
    "int8_compressed": int8(compressed("int-quantized", {**CHANNEL, "type": "int"})),
    "fp8_tensor": fp8("tensor", {"quant_method": "fp8", "activation_scheme": "static"}),
    "fp8_blocks": fp8("block", {"quant_method": "fp8", "weight_block_size": [32, 32]}),
    "fp8_rows": fp8("row", {"quant_method": "w8a8_fp8"}),
    "fp8_compressed": fp8("row", compressed("float-quantized", {**CHANNEL, "type": "float"})),
}


def make(name: str, folder: Path, left_out: tuple[str, ...] = ()) -> Any:
    """Save the checkpoint of a layout in ``folder``; returns transformers' model over the dense weights that it stands for."""
    import transformers

    layout = LAYOUTS[name]
    torch.manual_seed(sum(map(ord, name)))
    config = transformers.LlamaConfig(**SIZES)
    model = transformers.LlamaForCausalLM(config).eval().float()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(std=0.15)
    model.save_pretrained(folder)
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for key in [key for key in tensors if key.endswith("_proj.weight")]:
        stem = key.removesuffix(".weight")
        if stem in left_out:
            continue
        made, stands_for = layout.quantize(tensors.pop(key))
        tensors |= {f"{stem}.{suffix}": tensor for suffix, tensor in made.items()}
        with torch.no_grad():
            model.get_parameter(key).copy_(stands_for)
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, path, metadata={"format": "pt"})
    settings = json.loads((folder / "config.json").read_text())
    section = {**layout.config, "modules_to_not_convert": list(left_out)} if left_out else layout.config
    (folder / "config.json").write_text(json.dumps(settings | {"quantization_config": section}))
    return model
