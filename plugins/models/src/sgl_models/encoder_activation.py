"""Activations of encoders, whose result for a row does not depend on how many rows there are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

_FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
}
_LANES = 32
"""Two AVX-512 vectors, which torch's loops take at a time."""
_GRAIN = 32768
"""Elements from which torch splits an elementwise function over threads (at::internal::GRAIN_SIZE)."""


def activation(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """[rows, size] to the same shape, by a ``hidden_act``. Raises ValueError for a name that is not served."""
    if name not in _FUNCTIONS:
        raise ValueError(f"hidden_act {name!r} is not served in encoders; known: {', '.join(sorted(_FUNCTIONS))}")
    return partial(_by_rows, _FUNCTIONS[name])


def _by_rows(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """On a CPU torch computes elements that fill no vector with another routine, which may differ in the last bit: rows are
    padded to whole vectors, and not cut at a thread's border."""
    if x.dtype != torch.float32 or x.device.type != "cpu":
        return function(x)
    rows, size = x.shape
    if size % _LANES:
        return _by_rows(function, F.pad(x, (0, -size % _LANES)))[:, :size]
    if rows * size < _GRAIN or torch.get_num_threads() == 1:
        return function(x)
    return torch.cat([function(part) for part in torch.split(x, max(1, (_GRAIN - 1) // size))])
