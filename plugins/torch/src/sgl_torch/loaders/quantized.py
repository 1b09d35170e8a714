"""QuantizedTensor: a weight that stays in the blocks of its GGUF file until a kernel or a dense layer takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sgl_core.api.checkpoint import GGML_TYPES, GgmlType

from .dequantize import dequantize_rows


class LoadError(ValueError):
    """Weights cannot be read; the message names the file, and the tensor where there is one."""


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedTensor:
    """A matrix in ggml blocks.

    ``raw`` is uint8 [rows, bytes per row], C-contiguous: a view into the mapped file, or a copy where rows were put in
    another order. ``shape`` counts elements; leading axes beyond two are flattened into ``raw``'s rows.
    """

    raw: NDArray[np.uint8]
    ggml_type: int
    shape: tuple[int, ...]

    @property
    def type(self) -> GgmlType:
        return GGML_TYPES[self.ggml_type]

    @property
    def nbytes(self) -> int:
        return int(self.raw.nbytes)

    def dequantize(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The dense tensor of ``shape``: computed in float32, then rounded once to ``dtype``."""
        return dequantize_rows(self.raw, self.type, dtype).reshape(self.shape)

    def rows(self, index: slice | NDArray[Any]) -> QuantizedTensor:
        """Some rows of the matrix, in the order of ``index``; blocks lie within rows, so this is exact."""
        raw = np.ascontiguousarray(self.raw[index])
        return QuantizedTensor(raw, self.ggml_type, (len(raw), *self.shape[1:]))
