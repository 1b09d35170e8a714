"""Quantized linear layers: weights packed once into register tiles, then y = x W^T (+ bias) and embedding rows from them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .formats import NAMES, activation, weight_format
from .library import OpsError, check, load
from .pointers import Data, address, is64

EXACT, ACCUMULATE = 1, 2
_NO_ACTIVATION = -1
HEADER_BYTES = 256
_ALIGN = 64


def aligned_empty(nbytes: int) -> NDArray[np.uint8]:
    """Uninitialized bytes that start at a multiple of 64."""
    block = np.empty(nbytes + _ALIGN, dtype=np.uint8)
    start = -block.__array_interface__["data"][0] % _ALIGN
    return block[start : start + nbytes]


class Packed:
    """One packed weight [n_out, n_in]. ``data`` (uint8) may be saved to disk and mapped back with ``Packed.open``."""

    __slots__ = ("_address", "data", "format", "n_in", "n_out")

    def __init__(self, data: NDArray[np.uint8]) -> None:
        """Wrap a packed buffer. Raises OpsError if it is not one, is damaged, or starts at no multiple of 64."""
        self.data = data
        self._address = address(data)
        if self._address % _ALIGN:
            raise OpsError("a packed weight must start at a multiple of 64 bytes (map the file at such an offset)")
        check(load().sgl_packed_check(self._address, data.nbytes))
        self.format = NAMES[int(data[8:12].view(np.int32)[0])]
        self.n_out, self.n_in = (int(v) for v in data[40:56].view(np.int64))

    @property
    def nbytes(self) -> int:
        return int(self.data.nbytes)

    @property
    def pointer(self) -> int:
        """Address of the packed buffer (for ``run_many`` arrays and recorded tapes)."""
        return self._address

    def save(self, path: str | Path) -> None:
        """Write the buffer as it is; ``open`` maps it back."""
        self.data.tofile(path)

    @classmethod
    def open(cls, path: str | Path, *, offset: int = 0, nbytes: int | None = None) -> Packed:
        """Map a saved buffer without reading it. ``offset`` must be a multiple of 64."""
        size = Path(path).stat().st_size - offset if nbytes is None else nbytes
        return cls(np.memmap(path, dtype=np.uint8, mode="r", offset=offset, shape=(size,)))

    def run(
        self,
        x: Data,
        out: Data,
        bias: Data | None = None,
        *,
        rows: int | None = None,
        ldx: int | None = None,
        ldo: int | None = None,
        exact: bool = False,
        accumulate: bool = False,
        bf16_from: int | None = None,
    ) -> None:
        """out[T, n_out] = x[T, n_in] W^T + bias, f32. See ``run_many``."""
        run_many(
            [self],
            x,
            [out],
            [bias],
            rows=rows,
            ldx=ldx,
            ldo=[ldo],
            exact=exact,
            accumulate=accumulate,
            bf16_from=bf16_from,
        )

    def embed(
        self,
        ids: Data,
        out: Data,
        *,
        count: int | None = None,
        ldo: int | None = None,
        scale: float = 1.0,
        wide: bool | None = None,
    ) -> None:
        """out[t] = row ids[t] as f32, times scale. ids int32 or int64 (``wide`` when a bare address); ids outside the matrix read row 0."""
        total = int(ids.size) if isinstance(ids, np.ndarray) else count
        if total is None:
            raise ValueError("embed: pass count= when ids is not a numpy array")
        check(
            load().sgl_embed(self._address, address(ids), is64(ids, wide), total, address(out), ldo or self.n_in, scale)
        )

    def dequantize(self) -> NDArray[np.float32]:
        """The whole matrix as f32 [n_out, n_in]."""
        out = np.empty((self.n_out, self.n_in), dtype=np.float32)
        self.embed(np.arange(self.n_out, dtype=np.int64), out)
        return out


def _raw(array: NDArray[Any] | Data, fmt: int, n_out: int, n_in: int) -> int:
    if isinstance(array, np.ndarray):
        need = n_out * load().sgl_raw_row_bytes(fmt, n_in)
        if not array.flags.c_contiguous:
            raise ValueError("pack: the raw weight must be C-contiguous")
        if array.nbytes != need:
            raise ValueError(f"pack: {NAMES[fmt]} of {n_out} x {n_in} has {need} bytes, the array {array.nbytes}")
    return address(array)


def pack(
    fmt: str,
    raw: NDArray[Any] | Data,
    n_out: int,
    n_in: int,
    *,
    scales: NDArray[np.float32] | None = None,
    zeros: NDArray[np.float32] | None = None,
    group: int = 0,
    out: NDArray[np.uint8] | None = None,
) -> Packed:
    """Pack a weight [n_out, n_in] from its raw bytes; exact for every format.

    GGUF formats: the tensor's bytes as they lie in the file. F32, F16, BF16 (as uint16), F8_E4M3 (as uint8): row-major elements;
    F8_E4M3 takes ``scales`` [n_out, ceil(n_in / group)] (none: 1). INT8_CHANNEL: int8 elements, ``scales`` [n_out].
    INT4_GROUP: one code 0..15 a byte, ``scales`` and ``zeros`` [n_out, ceil(n_in / group)], value = scale * (code - zero).
    ``group`` is 0 (one per row) or 32 times a power of two. ``out``: a 64-byte aligned buffer of ``packed_bytes`` to fill.
    """
    lib, number = load(), weight_format(fmt)
    nbytes = packed_bytes(fmt, n_out, n_in, group=group)
    source = _raw(raw, number, n_out, n_in)
    groups = 1 if group <= 0 or number == 30 else -(-n_in // group)
    arrays: list[NDArray[np.float32] | None] = []
    for name, array in (("scales", scales), ("zeros", zeros)):
        if array is None:
            arrays.append(None)
            continue
        fixed = np.ascontiguousarray(array, dtype=np.float32)
        if fixed.size != n_out * groups:
            raise ValueError(f"pack: {name} must hold {n_out} x {groups} numbers, not {fixed.size}")
        arrays.append(fixed)
    if number == 31 and arrays[1] is None:
        raise ValueError("pack: INT4_GROUP needs zeros (8 everywhere when the format is symmetric)")
    buffer = aligned_empty(nbytes) if out is None else out
    if buffer.nbytes != nbytes:
        raise ValueError(f"pack: the out buffer has {buffer.nbytes} bytes, {nbytes} are needed")
    check(lib.sgl_pack(number, source, address(arrays[0]), address(arrays[1]), n_out, n_in, group, address(buffer)))
    return Packed(buffer)


def packed_bytes(fmt: str, n_out: int, n_in: int, *, group: int = 0) -> int:
    """Size of the packed buffer. Raises OpsError if the format cannot hold such a matrix."""
    nbytes = int(load().sgl_packed_bytes(weight_format(fmt), n_out, n_in, group))
    if nbytes < 0:
        check(-1)
    return nbytes


def run_many(
    weights: Sequence[Packed],
    x: Data,
    outs: Sequence[Data],
    biases: Sequence[Data | None] | None = None,
    *,
    rows: int | None = None,
    ldx: int | None = None,
    ldo: Sequence[int | None] | None = None,
    exact: bool = False,
    accumulate: bool = False,
    bf16_from: int | None = None,
) -> None:
    """Several matrices on the same x [T, n_in] (qkv, gate and up) as one job: x is quantized once, one barrier.

    f32 in and out, row strides ``ldx``/``ldo`` in elements (default: dense). ``rows`` is T, needed when x is no numpy array.
    Integer formats quantize x to 8 bits in blocks of 32 unless ``exact`` (then weights are expanded to f32: slow, for checks).
    ``accumulate`` adds to out. A row's result does not depend on T or on the threads.

    Rows from ``bf16_from`` on (0: all; None: none) are multiplied in bf16: x and the weights rounded once, sums in f32. That is
    several times faster for many rows and costs more than 8 bits for a few; where the instruction set has no such tiles
    (``sgl_ops.bf16_tiles()``) and with ``exact`` it changes nothing. The caller names the rows, so that it never is the batch
    that decides how a row is computed.
    """
    _run(weights, x, outs, biases, rows, ldx, ldo, _flags(exact, accumulate), bf16_from, _NO_ACTIVATION)


def run_gated(
    gate: Packed,
    up: Packed,
    x: Data,
    out: Data,
    kind: str = "silu",
    *,
    biases: Sequence[Data | None] | None = None,
    rows: int | None = None,
    ldx: int | None = None,
    ldo: int | None = None,
    exact: bool = False,
    bf16_from: int | None = None,
) -> None:
    """out[T, n_out] = act(gate x) * (up x), each product with its bias first; ``kind``: silu, gelu (erf) or gelu_tanh.

    The bits of ``run_many`` followed by ``fused.act_mul``, without the products going to memory and back.
    """
    _run((gate, up), x, (out,), biases, rows, ldx, (ldo,), _flags(exact, False), bf16_from, activation(kind))


def _flags(exact: bool, accumulate: bool) -> int:
    return (EXACT if exact else 0) | (ACCUMULATE if accumulate else 0)


def _run(
    weights: Sequence[Packed],
    x: Data,
    outs: Sequence[Data],
    biases: Sequence[Data | None] | None,
    rows: int | None,
    ldx: int | None,
    ldo: Sequence[int | None] | None,
    flags: int,
    bf16_from: int | None,
    act: int,
) -> None:
    count, total = len(weights), rows
    if total is None:
        if not isinstance(x, np.ndarray):
            raise ValueError("linear: pass rows= when x is not a numpy array")
        total = int(x.shape[0]) if x.ndim == 2 else 1
    strides = [(ldo[i] if ldo else None) or weights[i].n_out for i in range(len(outs))]
    pointers = ctypes.c_void_p * count
    check(
        load().sgl_linear(
            count,
            pointers(*[w.pointer for w in weights]),
            address(x),
            ldx or weights[0].n_in,
            total,
            pointers(*[address(o) for o in outs]),
            (ctypes.c_int64 * count)(*strides),
            pointers(*[address(b) for b in biases]) if biases else None,
            flags,
            total if bf16_from is None else bf16_from,
            act,
        )
    )
