"""ScaledTensor: a matrix as small codes and scales, the form that every quantization method reads its checkpoint into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class ScaledTensor:
    """``scale * (code - zero)``, one scale (and zero) for each ``group`` inputs of a row; ``group`` 0 is one for the row.

    ``codes`` [rows, columns] are uint8 from 0 to 15 (``int4``), int8 (``int8``), or the bits of float8_e4m3fn as uint8 (``fp8``).
    ``scales`` and ``zeros`` are float32 [rows, groups], the last group as long as the row allows; no zeros are zeros.
    """

    kind: Literal["int4", "int8", "fp8"]
    codes: NDArray[Any]
    scales: NDArray[np.float32]
    zeros: NDArray[np.float32] | None = None
    group: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.codes.shape[0], self.codes.shape[1]

    def dequantize(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The dense matrix: computed in float32, then rounded once to ``dtype``."""
        codes = torch.from_numpy(self.codes)
        values = codes.view(torch.float8_e4m3fn).float() if self.kind == "fp8" else codes.float()
        if self.zeros is not None:
            values -= self._spread(self.zeros)
        return (values * self._spread(self.scales)).to(dtype)

    def _spread(self, by_group: NDArray[np.float32]) -> torch.Tensor:
        """[rows, groups] as [rows, columns], or [rows, 1] where one serves the row."""
        values = torch.from_numpy(by_group)
        if not self.group:
            return values
        return values.repeat_interleave(self.group, dim=1)[:, : self.codes.shape[1]]
