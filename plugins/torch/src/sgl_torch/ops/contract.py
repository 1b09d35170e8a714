"""The signatures of the named ops. An implementation is a factory ``make(context: OpContext) -> op`` (registry ``ops``).

Between two ops a model's forward only makes views, so that a device that records its ops (a tape, a captured graph) sees all
the work of a step. Ops may return a new tensor or one of their own arena; they never keep their inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from .scaled import ScaledTensor


class OpUnavailable(RuntimeError):
    """Raised by an op factory that cannot serve this context; the message says why. The next best op is bound instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpContext:
    """What an op factory may base itself on."""

    device: torch.device
    dtype: torch.dtype
    threads: int = 1
    features: frozenset[str] = frozenset()
    """``Facts.features``: instruction sets and the like."""
    shared: dict[str, Any] = field(default_factory=dict)
    """What the ops and the attention backend of one library share for one loaded model, by the library's name: a thread pool,
    the arena that results lie in while a tape records."""


class QuantizedPart(Protocol):
    """A weight that stays in its file's blocks (``sgl_torch.loaders.QuantizedTensor``)."""

    @property
    def raw(self) -> NDArray[np.uint8]:
        """[rows, bytes per row]."""
        ...

    @property
    def ggml_type(self) -> int: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    def dequantize(self, dtype: torch.dtype) -> torch.Tensor: ...


WeightPart: TypeAlias = "torch.Tensor | QuantizedPart | ScaledTensor"


class LinearOp(Protocol):
    """``y = x W^T + b`` with a weight that is packed once, at load."""

    def pack(self, parts: Sequence[WeightPart], dtype: torch.dtype) -> Any:
        """Make the multiplier's own form of the matrices in ``parts``, stacked by rows (each ``[out_i, in]``).

        Parts may be dense or quantized, each in its own format. A dense part may be kept without a copy.
        """
        ...

    def unpack(self, packed: Any) -> torch.Tensor:
        """The dense matrix ``[sum(out_i), in]`` that ``packed`` stands for."""
        ...

    def __call__(self, x: torch.Tensor, packed: Any, bias: torch.Tensor | None) -> torch.Tensor:
        """``x`` [T, in] to [T, out], in ``x``'s dtype. A row's result does not depend on the other rows (fp32).

        An op may also have ``gated(x, packed, bias, activation, tanh)``: what the bound activation op makes of that, [T, out / 2],
        or None where it does not know the op; ``tanh`` is the form of gelu and None for silu.
        """
        ...


class EmbeddingOp(Protocol):
    """Table lookup with a table that is packed once, at load."""

    def pack(self, part: WeightPart, dtype: torch.dtype) -> Any: ...

    def unpack(self, packed: Any) -> torch.Tensor: ...

    def __call__(self, ids: torch.Tensor, packed: Any) -> torch.Tensor:
        """``ids`` [T] int64 to [T, hidden]."""
        ...


class RmsNormOp(Protocol):
    """``x / sqrt(mean(x^2) + eps) * weight`` over the last axis, the mean in fp32 (Zhang & Sennrich 2019)."""

    def __call__(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor: ...


class AddRmsNormOp(Protocol):
    """``residual' = residual + x`` and ``rms_norm(residual')``; returns (normed, residual'). May write into ``residual``."""

    def __call__(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]: ...


class RopeOp(Protocol):
    """Rotate the first ``table.shape[1]`` elements of each head of ``x`` [T, heads, head_dim] by its token's position.

    ``table`` is [positions, rotary_dim] fp32, cosines in the first half of a row and sines in the second. ``interleaved`` pairs
    (0, 1), (2, 3) ... (GPT-J); otherwise i pairs with i + rotary_dim / 2 (NeoX).
    """

    def __call__(
        self, x: torch.Tensor, table: torch.Tensor, positions: torch.Tensor, interleaved: bool
    ) -> torch.Tensor: ...


class SiluMulOp(Protocol):
    """``silu(x[:, :n]) * x[:, n:]`` for ``x`` [T, 2n]."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...


class GeluMulOp(Protocol):
    """``gelu(x[:, :n]) * x[:, n:]``; ``tanh`` selects the tanh form."""

    def __call__(self, x: torch.Tensor, tanh: bool) -> torch.Tensor: ...
