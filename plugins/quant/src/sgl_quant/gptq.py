"""GPTQ checkpoints (Frantar et al. 2022), as AutoGPTQ and GPTQModel write them.

``qweight`` int32 [columns / 8, rows] holds eight inputs of one row in a word, ``qzeros`` int32 [groups, rows / 8] eight rows, ``scales``
[groups, rows]. The original format stores each zero point less one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from sgl_torch.ops import ScaledTensor, WeightPart
from sgl_torch.weights import WeightError

from .bits import floats, transposed, unpack
from .method import IGNORED, Config, Expected, Format, Tensors


class Gptq(Format):
    """``act_order``: ``g_idx`` [columns] says which group each input belongs to. ``zero_less_one``: see above."""

    def __init__(self, group: int, act_order: bool, zero_less_one: bool) -> None:
        self._group = group
        self._act_order = act_order
        self._zero_less_one = zero_less_one

    def tensors(self, rows: int, columns: int) -> dict[str, Expected]:
        if rows % 8 or columns % 8:
            raise WeightError(f"GPTQ stores 4-bit matrices whose sides are multiples of 8, not {rows} x {columns}")
        groups = -(-columns // self._group) if self._group else 1
        return {
            "qweight": Expected((columns // 8, rows)),
            "qzeros": Expected((groups, rows // 8)),
            "scales": Expected((groups, rows)),
            "g_idx": Expected((columns,)) if self._act_order else IGNORED,
        }

    def read(self, found: Tensors, rows: int, columns: int) -> WeightPart:
        codes = transposed(unpack(found["qweight"], 0, columns))
        zeros = transposed(unpack(found["qzeros"], 1, rows)).astype(np.float32) + self._zero_less_one
        scales = transposed(floats(found["scales"]))
        order = found.get("g_idx")
        if order is None or self._in_order(order):
            return ScaledTensor("int4", codes, scales, zeros, self._group)
        index = order.numpy()
        dense: torch.Tensor = torch.from_numpy((codes - zeros[:, index]) * scales[:, index])
        return dense

    def _in_order(self, order: torch.Tensor) -> bool:
        return not self._group or bool((order == torch.arange(len(order), dtype=order.dtype) // self._group).all())


def config_from(config: Mapping[str, Any]) -> Config:
    """From ``quantization_config``. Raises WeightError for widths that are not read."""
    bits = config.get("bits", 4)
    if bits != 4:
        raise WeightError(
            f"GPTQ with {bits} bits is not read (4 bits are); use a 4-bit checkpoint or an unquantized one"
        )
    if config.get("dynamic"):
        raise WeightError("GPTQ with settings for single layers (`dynamic`) is not read; use a checkpoint without them")
    group = config.get("group_size", 128)
    made = Gptq(
        group=max(group, 0),
        act_order=bool(config.get("desc_act")),
        zero_less_one=config.get("checkpoint_format", "gptq") != "gptq_v2",
    )
    return Config(made, ("lm_head", *(config.get("modules_to_not_convert") or ())))
