"""Random weights for speed tests without a download: seeded, the same for a tensor whatever is loaded beside it."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from .quantized import LoadError

if TYPE_CHECKING:
    from sgl_core.api.checkpoint import ModelFiles

    from .iterate import LoadRequest


def load(files: ModelFiles, request: LoadRequest) -> Iterator[tuple[str, torch.Tensor]]:
    """Every expected tensor: matrices with variance 1 / columns (activations keep their scale), norms one, biases zero."""
    if not request.expected:
        raise LoadError("the load format 'dummy' must be told the model's tensors and shapes")
    for done, (name, shape) in enumerate(request.expected.items(), start=1):
        yield name, _tensor(name, shape, request.dtype, request.seed)
        if request.progress is not None:
            request.progress("making random weights", done, len(request.expected))


def _tensor(name: str, shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    if len(shape) < 2:
        return torch.zeros(shape, dtype=dtype) if name.endswith("bias") else torch.ones(shape, dtype=dtype)
    # Seeded by name: order, sharding and a second load give the same numbers. (Only 32 bits of a seed count on a CPU.)
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
    normal = torch.randn(shape, generator=generator)
    return normal.mul_(1.0 / math.sqrt(shape[-1])).to(dtype)
