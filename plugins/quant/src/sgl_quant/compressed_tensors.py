"""Checkpoints of compressed-tensors (llm-compressor): 4-bit groups packed in words, 8-bit integers, 8-bit floats.

Of ``pack-quantized``, ``weight_packed`` int32 [rows, columns / 8] holds eight inputs of one row in a word, each plus 8; ``weight_scale`` is
[rows, groups]; ``weight_zero_point`` int32 [rows / 8, groups], where there is one, holds eight rows in a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sgl_torch.ops import ScaledTensor, WeightPart
from sgl_torch.weights import WeightError

from .bits import floats, unpack
from .fp8 import Float8
from .int8 import Int8
from .method import Config, Expected, Format, Tensors


class Packed(Format):
    def __init__(self, group: int, symmetric: bool) -> None:
        self._group = group
        self._symmetric = symmetric

    def tensors(self, rows: int, columns: int) -> dict[str, Expected]:
        groups = -(-columns // self._group) if self._group else 1
        wanted = {
            "weight_packed": Expected((rows, -(-columns // 8))),
            "weight_scale": Expected((rows, groups)),
            "weight_shape": Expected((2,)),
        }
        if not self._symmetric:
            wanted["weight_zero_point"] = Expected((-(-rows // 8), groups))
        return wanted

    def read(self, found: Tensors, rows: int, columns: int) -> WeightPart:
        codes = unpack(found["weight_packed"], 1, columns)
        scales = floats(found["weight_scale"])
        if self._symmetric:
            zeros = np.full_like(scales, 8)
        else:
            zeros = unpack(found["weight_zero_point"], 0, rows).astype(np.float32)
        return ScaledTensor("int4", codes, scales, zeros, self._group)


def config_from(config: Mapping[str, Any]) -> Config:
    """From ``quantization_config``. Raises WeightError for schemes that are not read."""
    groups = list((config.get("config_groups") or {}).values())
    if len(groups) != 1 or list(groups[0].get("targets") or ()) != ["Linear"]:
        raise WeightError(
            "compressed-tensors with several schemes in one model is not read; use one scheme for all of `Linear`"
        )
    weights = groups[0].get("weights") or {}
    return Config(_format(config.get("format") or groups[0].get("format"), weights), tuple(config.get("ignore") or ()))


def _format(name: str | None, weights: Mapping[str, Any]) -> Format:
    bits, kind, strategy = weights.get("num_bits"), weights.get("type", "int"), weights.get("strategy")
    per_row = strategy in ("channel", "tensor")
    if name == "pack-quantized" and bits == 4 and kind == "int" and not weights.get("actorder"):
        return Packed(weights.get("group_size") or 0, bool(weights.get("symmetric", True)))
    if name == "int-quantized" and bits == 8 and kind == "int" and per_row and weights.get("symmetric", True):
        return Int8()
    if name == "float-quantized" and bits == 8 and kind == "float" and per_row:
        return Float8()
    raise WeightError(
        f"compressed-tensors in the format {name} with {bits}-bit {kind} weights by {strategy} is not read (4-bit pack-quantized "
        "without act-order, and 8-bit int-quantized and float-quantized by channel or tensor are)"
    )
