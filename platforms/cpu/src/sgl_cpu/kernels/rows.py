"""The row ops: root-mean-square norms, rotary positions and gated activations."""

from __future__ import annotations

import torch

from sgl_ops import fused
from sgl_torch.ops import OpContext

from .session import Kernels


def as_rows(x: torch.Tensor) -> tuple[torch.Tensor, int, int]:
    """(``x`` with elements side by side, rows, row stride); the leading axes are taken as one."""
    if x.dim() != 2:
        x = x.reshape(-1, x.shape[-1])
    if x.stride(-1) != 1:
        x = x.contiguous()
    return x, x.shape[0], x.stride(0)


class KernelRmsNorm:
    """See :class:`sgl_torch.ops.contract.RmsNormOp`."""

    def __init__(self, context: OpContext) -> None:
        self._kernels = Kernels.of(context)

    def __call__(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        shape = x.shape
        x, count, stride = as_rows(x)
        dim = shape[-1]
        out = self._kernels.arena.empty(count, dim)
        fused.rms_norm(x.data_ptr(), weight.data_ptr(), out.data_ptr(), rows=count, dim=dim, eps=eps, ldx=stride)
        return out.view(shape)


class KernelAddRmsNorm:
    """See :class:`sgl_torch.ops.contract.AddRmsNormOp`; the sum is written into ``residual``."""

    def __init__(self, context: OpContext) -> None:
        self._kernels = Kernels.of(context)

    def __call__(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        x, count, stride = as_rows(x)
        dim = x.shape[-1]
        out = self._kernels.arena.empty(count, dim)
        fused.rms_norm(
            x.data_ptr(),
            weight.data_ptr(),
            out.data_ptr(),
            rows=count,
            dim=dim,
            eps=eps,
            residual=residual.data_ptr(),
            ldx=stride,
            ldr=residual.stride(0),
        )
        return out, residual


class KernelRope:
    """See :class:`sgl_torch.ops.contract.RopeOp`. (The attention backend of this package rotates by itself.)"""

    def __init__(self, context: OpContext) -> None:
        self._kernels = Kernels.of(context)

    def __call__(
        self, x: torch.Tensor, table: torch.Tensor, positions: torch.Tensor, interleaved: bool
    ) -> torch.Tensor:
        count, heads, dim = x.shape
        out = self._kernels.arena.empty(count, heads * dim).view(count, heads, dim)
        out.copy_(x)
        fused.rope_kv(
            out.data_ptr(),
            None,
            None,
            tokens=count,
            heads=heads,
            kv_heads=0,
            head_dim=dim,
            positions=positions.data_ptr(),
            cos_sin=table.data_ptr(),
            max_position=table.shape[0],
            rot_dim=table.shape[1],
            interleaved=interleaved,
            wide_positions=positions.dtype == torch.int64,
        )
        return out


class KernelGated:
    """``act(x[:, :n]) * x[:, n:]``."""

    def __init__(self, context: OpContext, kind: str) -> None:
        self._kernels = Kernels.of(context)
        self._kind = kind

    def kind(self, tanh: bool | None) -> str:
        """What the kernels call it."""
        return "gelu_tanh" if tanh else self._kind

    def __call__(self, x: torch.Tensor, tanh: bool = False) -> torch.Tensor:
        x, count, stride = as_rows(x)
        dim = x.shape[1] // 2
        out = self._kernels.arena.empty(count, dim)
        gate, kind = x.data_ptr(), self.kind(tanh)
        fused.act_mul(gate, gate + 4 * dim, out.data_ptr(), rows=count, dim=dim, kind=kind, ldg=stride, ldu=stride)
        return out


def make_silu_mul(context: OpContext) -> KernelGated:
    return KernelGated(context, "silu")


def make_gelu_mul(context: OpContext) -> KernelGated:
    return KernelGated(context, "gelu")
