"""8-bit integer weights with one scale for each row (w8a8); activations are quantized as they come, in blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from sgl_torch.ops import ScaledTensor, WeightPart
from sgl_torch.weights import WeightError

from .fp8 import by_row
from .method import IGNORED, Config, Expected, Format, Tensors


class Int8(Format):
    def tensors(self, rows: int, columns: int) -> dict[str, Expected]:
        return {
            "weight": Expected((rows, columns)),
            "weight_scale": Expected(),
            "input_scale": IGNORED,
            "weight_zero_point": IGNORED,
        }

    def read(self, found: Tensors, rows: int, columns: int) -> WeightPart:
        weight = found["weight"]
        if weight.dtype != torch.int8:
            raise WeightError(
                f"its weight is {str(weight.dtype).removeprefix('torch.')}, not int8: unquantized weights are not quantized at load "
                "here; use a checkpoint that is quantized already"
            )
        return ScaledTensor("int8", weight.contiguous().numpy(), by_row(found["weight_scale"], rows))


def config_from(config: Mapping[str, Any]) -> Config:
    """From ``quantization_config``."""
    return Config(Int8(), ("lm_head", *(config.get("modules_to_not_convert") or ()), *(config.get("ignore") or ())))
