"""Arena: float32 results of ops in memory that is used again once nobody holds the tensor, so that no step maps fresh pages."""

from __future__ import annotations

import bisect
import weakref
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sgl_ops.linear import aligned_empty

_GRAIN = 4096
"""Blocks are multiples of this many bytes."""


class _Loan(weakref.ref):  # type: ignore[type-arg]
    """A block in use. It dies with the array that the tensor's storage holds."""

    __slots__ = ("block",)
    block: NDArray[np.uint8]


class Arena:
    """Tensors [rows, columns] float32. ``rows_ahead`` sizes every block for that many rows at least, so that recordings of
    different batch sizes lie in the same blocks."""

    def __init__(self, rows_ahead: int = 0) -> None:
        self._rows_ahead = rows_ahead
        self._sizes: list[int] = []
        self._blocks: list[NDArray[np.uint8]] = []
        self._loans: dict[int, _Loan] = {}
        self.reserved = 0
        """Bytes of all blocks."""

    def empty(self, rows: int, columns: int) -> torch.Tensor:
        """An uninitialized tensor; its block comes back when the last tensor over it is gone."""
        count = rows * columns
        block = self._take(4 * max(count, self._rows_ahead * columns, 1))
        array = np.frombuffer(block, np.float32, count).reshape(rows, columns)
        loan = _Loan(array, self._back)
        loan.block = block
        self._loans[id(loan)] = loan
        return torch.from_numpy(array)  # its storage holds the array until the last view of it is gone

    def _take(self, need: int) -> NDArray[np.uint8]:
        at = bisect.bisect_left(self._sizes, need)
        if at < len(self._sizes):
            del self._sizes[at]
            return self._blocks.pop(at)
        size = -(-need // _GRAIN) * _GRAIN
        self.reserved += size
        return aligned_empty(size)

    def _back(self, loan: Any) -> None:
        del self._loans[id(loan)]
        at = bisect.bisect_left(self._sizes, loan.block.nbytes)
        self._sizes.insert(at, loan.block.nbytes)
        self._blocks.insert(at, loan.block)
