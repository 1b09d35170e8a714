"""AWQ checkpoints (Lin et al. 2023) in the GEMM layout.

``qweight`` int32 [columns, rows / 8] and ``qzeros`` int32 [groups, rows / 8] hold eight rows in a word, the even ones in the lower
half: 0, 2, 4, 6, 1, 3, 5, 7 from the lowest bits up. ``scales`` is [groups, rows].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sgl_torch.ops import ScaledTensor, WeightPart
from sgl_torch.weights import WeightError

from .bits import floats, transposed, unpack
from .method import Config, Expected, Format, Tensors

_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""The nibble that holds each row of a word."""


class Awq(Format):
    def __init__(self, group: int) -> None:
        self._group = group

    def tensors(self, rows: int, columns: int) -> dict[str, Expected]:
        if rows % 8:
            raise WeightError(f"AWQ stores matrices of a multiple of 8 rows, not {rows}")
        groups = -(-columns // self._group) if self._group else 1
        return {
            "qweight": Expected((columns, rows // 8)),
            "qzeros": Expected((groups, rows // 8)),
            "scales": Expected((groups, rows)),
        }

    def read(self, found: Tensors, rows: int, columns: int) -> WeightPart:
        codes = transposed(unpack(found["qweight"], 1, rows, _ORDER))
        zeros = transposed(unpack(found["qzeros"], 1, rows, _ORDER)).astype(np.float32)
        return ScaledTensor("int4", codes, transposed(floats(found["scales"])), zeros, self._group)


def config_from(config: Mapping[str, Any]) -> Config:
    """From ``quantization_config``. Raises WeightError for widths and layouts that are not read."""
    bits = config.get("bits", config.get("w_bit", 4))
    version = str(config.get("version", "gemm")).lower()
    if bits != 4 or version != "gemm":
        raise WeightError(f"AWQ with {bits} bits in the layout {version!r} is not read (4 bits in 'gemm' are)")
    made = Awq(max(config.get("group_size", config.get("q_group_size", 128)), 0))
    return Config(made, ("lm_head", *(config.get("modules_to_not_convert") or ())))
