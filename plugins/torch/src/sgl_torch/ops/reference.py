"""The torch implementation of every named op: the fallback on any device and the oracle the other implementations are tested against."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from .contract import OpContext, WeightPart

_GRAIN = 32768
"""Elements below which torch runs an element-wise op on one thread (at::internal::GRAIN_SIZE)."""


def dense(part: WeightPart, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A weight as a dense contiguous tensor; no copy where it is one already."""
    if isinstance(part, torch.Tensor):
        return part.to(device=device, dtype=dtype).contiguous()
    return part.dequantize(dtype).to(device)


class TorchLinear:
    """Dense weights and ``torch.nn.functional.linear``."""

    def __init__(self, context: OpContext) -> None:
        self._device = context.device

    def pack(self, parts: Sequence[WeightPart], dtype: torch.dtype) -> torch.Tensor:
        tensors = [dense(part, dtype, self._device) for part in parts]
        return tensors[0] if len(tensors) == 1 else torch.cat(tensors)

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        return packed

    def __call__(self, x: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return F.linear(x, packed, bias)


class TorchEmbedding:
    """A dense table and ``index_select``."""

    def __init__(self, context: OpContext) -> None:
        self._device = context.device

    def pack(self, part: WeightPart, dtype: torch.dtype) -> torch.Tensor:
        return dense(part, dtype, self._device)

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        return packed

    def __call__(self, ids: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
        return packed.index_select(0, ids)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The normed value is rounded to the activations' dtype before the weight multiplies it, as checkpoints were trained."""
    if x.dtype == torch.float32:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True).add_(eps)) * weight
    wide = x.float()
    wide = wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True).add_(eps))
    return wide.to(x.dtype) * weight


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    residual = residual + x
    return rms_norm(residual, weight, eps), residual


class TorchRope:
    """Remembers the rows of the last table and positions, which all layers of a step share."""

    def __init__(self, context: OpContext) -> None:
        self._table: torch.Tensor | None = None
        self._positions: torch.Tensor | None = None
        self._cos = self._sin = torch.empty(0)

    def __call__(
        self, x: torch.Tensor, table: torch.Tensor, positions: torch.Tensor, interleaved: bool
    ) -> torch.Tensor:
        if table is not self._table or positions is not self._positions:
            self._cos, self._sin = table.index_select(0, positions).unsqueeze(1).chunk(2, dim=-1)
            self._table, self._positions = table, positions
        rotary_dim = table.shape[1]
        rotated = x if rotary_dim == x.shape[-1] else x[..., :rotary_dim]
        wide = rotated if x.dtype == torch.float32 else rotated.float()
        if interleaved:
            first, second = wide[..., ::2], wide[..., 1::2]
        else:
            first, second = wide.chunk(2, dim=-1)
        a = first * self._cos - second * self._sin
        b = second * self._cos + first * self._sin
        out = torch.stack((a, b), dim=-1).flatten(-2) if interleaved else torch.cat((a, b), dim=-1)
        if rotary_dim == x.shape[-1]:
            return out.to(x.dtype)
        return torch.cat((out.to(x.dtype), x[..., rotary_dim:]), dim=-1)


def _gated(x: torch.Tensor, act: str, tanh: bool) -> torch.Tensor:
    gate, up = x.chunk(2, dim=-1)
    if act == "silu":
        return F.silu(gate).mul_(up)
    return F.gelu(gate, approximate="tanh" if tanh else "none").mul_(up)


def _whole_vectors(x: torch.Tensor, threads: int) -> bool:
    """Whether torch splits the activation over threads at whole vectors only.

    torch computes the few elements that do not fill a vector with another exponential (the C library's), which may differ in
    the last bit. Where a split may fall inside a row, an element's result would depend on how many rows there are.
    """
    return x.shape[0] * x.shape[1] // 2 < _GRAIN or x.shape[1] // 2 % (16 * threads) == 0


class TorchGated:
    """``act(gate) * up`` in row blocks small enough for one thread where splitting would not be exact."""

    def __init__(self, context: OpContext, act: str) -> None:
        self._threads = context.threads
        self._act = act

    def __call__(self, x: torch.Tensor, tanh: bool = False) -> torch.Tensor:
        if x.dtype != torch.float32 or _whole_vectors(x, self._threads):
            return _gated(x, self._act, tanh)
        rows = max(1, (_GRAIN - 1) // (x.shape[1] // 2))
        return torch.cat([_gated(part, self._act, tanh) for part in torch.split(x, rows)])


def make_rms_norm(context: OpContext) -> object:
    return rms_norm


def make_add_rms_norm(context: OpContext) -> object:
    return add_rms_norm


def make_silu_mul(context: OpContext) -> TorchGated:
    return TorchGated(context, "silu")


def make_gelu_mul(context: OpContext) -> TorchGated:
    return TorchGated(context, "gelu")
