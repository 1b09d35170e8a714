"""The ops ``linear`` and ``embedding`` over packed matrices: GGUF blocks and 16-bit weights stay as they are in the file."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import sgl_ops
from sgl_core.api.checkpoint import GGML_TYPES
from sgl_ops import formats, linear
from sgl_torch.ops import OpContext, ScaledTensor, WeightPart

from .memory import forget
from .rows import KernelGated, as_rows
from .session import Kernels

log = logging.getLogger("sgl_cpu")

_DENSE = {
    torch.float32: ("F32", torch.float32),
    torch.float16: ("F16", torch.int16),
    torch.bfloat16: ("BF16", torch.int16),
}
_SCALED = {"int4": "INT4_GROUP", "int8": "INT8_CHANNEL", "fp8": "F8_E4M3"}
_WIDE = ("F32", "F16")
"""Formats that rounding to bf16 would make coarser: always multiplied in float32."""
_MANY = 8
"""Matrices that one call multiplies at most."""


class Matrix:
    """Matrices stacked by rows, each packed in its own format."""

    __slots__ = ("__weakref__", "columns", "offsets", "parts", "rows", "strides", "wide")

    def __init__(self, parts: Sequence[linear.Packed]) -> None:
        self.parts = list(parts)
        self.columns = parts[0].n_in
        self.wide = any(part.format in _WIDE for part in parts)
        ends = np.cumsum([part.n_out for part in parts]).tolist()
        self.rows = ends[-1]
        self.offsets = [0, *ends[:-1]]
        self.strides = [self.rows] * len(parts)

    def storages(self) -> dict[int, int]:
        """Address to bytes of each part."""
        return {part.pointer: part.nbytes for part in self.parts}

    def dense(self) -> torch.Tensor:
        """[rows, columns] float32."""
        return torch.from_numpy(np.concatenate([part.dequantize() for part in self.parts]))


class KernelLinear:
    """See :class:`sgl_torch.ops.LinearOp`."""

    def __init__(self, context: OpContext) -> None:
        self._kernels = Kernels.of(context)

    def pack(self, parts: Sequence[WeightPart], dtype: torch.dtype) -> Matrix:
        return Matrix([pack(part, self._kernels) for part in parts])

    def unpack(self, packed: Matrix) -> torch.Tensor:
        return packed.dense()

    def __call__(self, x: torch.Tensor, packed: Matrix, bias: torch.Tensor | None) -> torch.Tensor:
        x, rows, stride = as_rows(x)
        how = self._how(packed, rows, stride)
        out = self._kernels.arena.empty(rows, packed.rows)
        base, add = out.data_ptr(), None if bias is None else bias.data_ptr()
        for first in range(0, len(packed.parts), _MANY):
            offsets = packed.offsets[first : first + _MANY]
            linear.run_many(
                packed.parts[first : first + _MANY],
                x.data_ptr(),
                [base + 4 * offset for offset in offsets],
                None if add is None else [add + 4 * offset for offset in offsets],
                ldo=packed.strides,
                **how,
            )
        return out

    def gated(
        self, x: torch.Tensor, packed: Matrix, bias: torch.Tensor | None, activation: object, tanh: bool | None
    ) -> torch.Tensor | None:
        """See :class:`sgl_torch.ops.LinearOp`: with the activation of these kernels, of a gate and an up matrix."""
        if not isinstance(activation, KernelGated) or len(packed.parts) != 2:
            return None
        x, rows, stride = as_rows(x)
        width = packed.rows // 2
        out = self._kernels.arena.empty(rows, width)
        gate, up = packed.parts
        linear.run_gated(
            gate,
            up,
            x.data_ptr(),
            out.data_ptr(),
            activation.kind(tanh),
            biases=None if bias is None else [bias.data_ptr(), bias.data_ptr() + 4 * width],
            **self._how(packed, rows, stride),
        )
        return out

    def _how(self, packed: Matrix, rows: int, stride: int) -> dict[str, Any]:
        """How ``rows`` rows, so far apart, are multiplied."""
        kernels = self._kernels
        tiles = None if packed.wide else kernels.bf16_tokens
        return {"rows": rows, "ldx": stride, "exact": kernels.exact, "bf16_from": tiles}


class KernelEmbedding:
    """See :class:`sgl_torch.ops.EmbeddingOp`."""

    keeps_parts = True
    """A tied head may be given the same part again: it is packed once."""

    def __init__(self, context: OpContext) -> None:
        self._kernels = Kernels.of(context)

    def pack(self, part: WeightPart, dtype: torch.dtype) -> Matrix:
        return Matrix([pack(part, self._kernels)])

    def unpack(self, packed: Matrix) -> torch.Tensor:
        return packed.dense()

    def __call__(self, ids: torch.Tensor, packed: Matrix) -> torch.Tensor:
        count = ids.shape[0]
        out = self._kernels.arena.empty(count, packed.columns)
        packed.parts[0].embed(ids.data_ptr(), out.data_ptr(), count=count, wide=ids.dtype == torch.int64)
        return out


def pack(part: WeightPart, kernels: Kernels) -> linear.Packed:
    """One matrix in the form of its format; what has no kernel is dequantized to float32 and multiplied so."""
    name, raw, owner, scaling = _source(part)
    rows, columns = int(np.prod(part.shape[:-1])), int(part.shape[-1])
    key = (id(owner), name, rows, columns)
    known = kernels.packed.get(key)
    if known is not None and known.owner() is owner:
        return known  # type: ignore[no-any-return]
    kernels.packings += 1
    memory = kernels.weights.take(linear.packed_bytes(name, rows, columns, group=scaling.get("group", 0)))
    made = Shared(linear.pack(name, raw, rows, columns, out=memory, **scaling).data)
    if isinstance(owner, np.ndarray):
        forget(owner)
    made.owner = weakref.ref(owner)
    kernels.packed[key] = made
    return made


class Shared(linear.Packed):
    """A packed matrix that knows the array it was made from."""

    __slots__ = ("__weakref__", "owner")
    owner: weakref.ref[object]


def _source(part: WeightPart) -> tuple[str, NDArray[np.generic], object, dict[str, Any]]:
    """(format, raw bytes, the object that owns them, scales and the like)."""
    if isinstance(part, torch.Tensor):
        name, view = _DENSE.get(part.dtype, ("F32", torch.float32))
        dense = (part if part.dtype in _DENSE else part.float()).contiguous()
        return name, dense.view(view).numpy(), part, {}
    if isinstance(part, ScaledTensor):
        name, raw, owner = _SCALED[part.kind], part.codes, part.codes
        scaling: dict[str, Any] = {"scales": part.scales, "zeros": part.zeros, "group": part.group}
    else:
        name, raw, owner, scaling = GGML_TYPES[part.ggml_type].name, part.raw, part.raw, {}
    why = _why_not(name, part, scaling.get("group", 0))
    if not why:
        return name, np.ascontiguousarray(raw), owner, scaling
    log.info("a matrix of %s is kept and multiplied in float32: %s", part.shape, why)
    return "F32", part.dequantize(torch.float32).contiguous().numpy(), owner, {}


def _why_not(name: str, part: WeightPart, group: int) -> str:
    """Why no kernel multiplies the matrix in its own format, or ""."""
    if name not in formats.WEIGHTS:
        return f"no kernel multiplies {name} blocks"
    if name == "INT8_CHANNEL" and group:
        return "the kernel of 8-bit weights takes one scale a row"
    try:
        linear.packed_bytes(name, int(np.prod(part.shape[:-1])), int(part.shape[-1]), group=group)
    except sgl_ops.OpsError as error:
        return str(error)
    return ""
