"""8-bit floats (float8_e4m3fn) with one scale for the matrix, for each row, or for blocks of rows and columns (DeepSeek-V3).

Scales of activations, which some checkpoints carry, are not needed: activations stay float32 here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sgl_torch.ops import ScaledTensor, WeightPart
from sgl_torch.weights import WeightError

from .bits import floats
from .method import IGNORED, Config, Expected, Format, Tensors


class Float8(Format):
    """``block`` is (rows, columns) of one scale, None where a scale serves the matrix or a row."""

    def __init__(self, block: tuple[int, int] | None = None) -> None:
        self._block = block

    def tensors(self, rows: int, columns: int) -> dict[str, Expected]:
        ignored = {"input_scale": IGNORED, "weight_zero_point": IGNORED}
        if self._block is None:
            return {"weight": Expected((rows, columns)), "weight_scale": Expected(), **ignored}
        grid = -(-rows // self._block[0]), -(-columns // self._block[1])
        return {"weight": Expected((rows, columns)), "weight_scale_inv": Expected(grid), **ignored}

    def read(self, found: Tensors, rows: int, columns: int) -> WeightPart:
        weight = found["weight"]
        if weight.dtype != torch.float8_e4m3fn:
            raise WeightError(
                f"its weight is {str(weight.dtype).removeprefix('torch.')}, not float8_e4m3fn: unquantized weights are not quantized "
                "at load here; use a checkpoint that is quantized already"
            )
        codes = weight.contiguous().view(torch.uint8).numpy()
        if self._block is None:
            return ScaledTensor("fp8", codes, by_row(found["weight_scale"], rows))
        tall, wide = self._block
        scales = np.repeat(floats(found["weight_scale_inv"]), tall, axis=0)[:rows]
        return ScaledTensor("fp8", codes, np.ascontiguousarray(scales), None, wide)


def by_row(scale: torch.Tensor, rows: int) -> NDArray[np.float32]:
    """A scale for the matrix, or one for each row, as [rows, 1]."""
    values = floats(scale).reshape(-1, 1)
    if len(values) not in (1, rows):
        raise WeightError(f"its scale has {len(values)} numbers for {rows} rows")
    return np.array(np.broadcast_to(values, (rows, 1)))


def config_from(config: Mapping[str, Any]) -> Config:
    """From ``quantization_config``."""
    size = config.get("weight_block_size")
    left_out = (*(config.get("modules_to_not_convert") or ()), *(config.get("ignored_layers") or ()))
    return Config(Float8((int(size[0]), int(size[1])) if size else None), ("lm_head", *left_out))
