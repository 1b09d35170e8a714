"""Small integers in 32-bit words, the way checkpoints store them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sgl_torch.weights import WeightError


def unpack(
    words: torch.Tensor, axis: int, count: int, order: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7)
) -> NDArray[np.uint8]:
    """The 4-bit numbers of int32 ``words`` [a, b] side by side along ``axis``, the first ``count`` of them there.

    The nibble of bits ``4 * order[i]`` holds number ``i`` of a word.
    """
    if words.dtype != torch.int32:
        raise WeightError(f"packed weights are 32-bit integers, not {str(words.dtype).removeprefix('torch.')}")
    raw = words.contiguous().numpy().view(np.uint32)
    shifts = np.array([4 * place for place in order], np.uint32)
    nibbles = (np.expand_dims(raw, axis + 1) >> shifts.reshape((-1,) + (1,) * (raw.ndim - 1 - axis))) & 15
    shape = list(raw.shape)
    shape[axis] *= len(order)
    flat = nibbles.astype(np.uint8).reshape(shape)
    return np.ascontiguousarray(flat[(slice(None),) * axis + (slice(count),)])


def floats(tensor: torch.Tensor) -> NDArray[np.float32]:
    """Scales as float32, C-contiguous."""
    values: NDArray[np.float32] = tensor.to(torch.float32).contiguous().numpy()
    return values


def transposed(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array.T)
