"""Reading a GGUF header: metadata and the place of every tensor, without touching tensor data.

The ``gguf`` package's reader makes a numpy view of every string and takes seconds on a 50,000-token vocabulary; this one
reads the header sequentially in about a tenth of a second, and names file, tensor and type id in its errors.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3, little endian).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

import numpy as np

from .gguf_types import GGML_TYPES, GgmlType

_MAGIC = b"GGUF"
_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "|b1",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_UNPACK = {
    kind: struct.Struct("<" + code)
    for kind, code in {
        0: "B",
        1: "b",
        2: "H",
        3: "h",
        4: "I",
        5: "i",
        6: "f",
        7: "?",
        10: "Q",
        11: "q",
        12: "d",
    }.items()
}
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class GgufError(ValueError):
    """The file is no GGUF file, is cut off, or holds something unknown; the message names the file."""


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """Where a tensor lies. ``shape`` is in row-major order (rows first), ``offset`` in bytes from the file's start."""

    name: str
    shape: tuple[int, ...]
    type: GgmlType
    offset: int
    nbytes: int


class TextArray(Sequence[str]):
    """The texts of a metadata array, decoded when they are looked at: a vocabulary is long, and few readers want all of it."""

    __slots__ = ("_data", "_starts")

    def __init__(self, data: bytes, starts: list[int]) -> None:
        self._data = data
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self._text(start) for start in self._starts[index]]
        return self._text(self._starts[index])

    def __iter__(self) -> Iterator[str]:
        data, starts = self._data, self._starts
        for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
            yield data[start + 8 : end].decode("utf-8", "replace")

    def _text(self, start: int) -> str:
        (length,) = _U64.unpack_from(self._data, start)
        return self._data[start + 8 : start + 8 + length].decode("utf-8", errors="replace")


@dataclass(frozen=True, slots=True)
class GgufFile:
    """A parsed header. Numbers of ``metadata`` are Python's; arrays are lists, those of texts :class:`TextArray`."""

    path: Path
    version: int
    metadata: Mapping[str, Any] = field(repr=False)
    tensors: Mapping[str, GgufTensor] = field(repr=False)

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", ""))

    def map(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The whole file as a byte array; a tensor's bytes are ``[offset : offset + nbytes]`` of it.

        Pages are mapped, not read, and copied on write, so that nothing ever changes the file.
        """
        return np.memmap(self.path, dtype=np.uint8, mode="c")


def read_gguf(path: Path) -> GgufFile:
    """Parse the header of a GGUF file. Raises :class:`GgufError`, or OSError where the file cannot be read."""
    size = path.stat().st_size
    if size < 24:
        raise GgufError(f"{path}: not a GGUF file ({size} bytes long)")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return _Parser(path, data).parse()
        except (struct.error, IndexError):
            raise GgufError(f"{path}: the GGUF header is cut off; download the file again") from None


class _Parser:
    """A cursor over the mapped header."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.at = 0

    def parse(self) -> GgufFile:
        if self.data[:4] != _MAGIC:
            raise GgufError(f"{self.path}: not a GGUF file (it starts with {self.data[:4]!r}, not {_MAGIC!r})")
        self.at = 4
        version = self.u32()
        if version & 0xFFFF == 0:
            raise GgufError(f"{self.path}: big-endian GGUF is not supported; convert it to little endian")
        if version not in (2, 3):
            raise GgufError(f"{self.path}: GGUF version {version} is not supported (2 and 3 are); convert it again")
        tensor_count, pair_count = self.u64(), self.u64()
        metadata: dict[str, Any] = {}
        for _ in range(pair_count):
            key = self.string()
            metadata[key] = self.value(self.u32(), key)
        entries = [self.tensor_entry() for _ in range(tensor_count)]
        alignment = int(metadata.get("general.alignment", 32))
        start = -(-self.at // alignment) * alignment
        tensors = {name: self.place(name, shape, kind, start + offset) for name, shape, kind, offset in entries}
        return GgufFile(self.path, version, metadata, tensors)

    def tensor_entry(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self.string()
        dims = [self.u64() for _ in range(self.u32())]
        return name, tuple(reversed(dims)), self.u32(), self.u64()

    def place(self, name: str, shape: tuple[int, ...], type_id: int, offset: int) -> GgufTensor:
        kind = GGML_TYPES.get(type_id)
        if kind is None:
            raise GgufError(
                f"{self.path}: tensor {name!r} has the unknown ggml type id {type_id}; "
                "use a file in another quantization, or a newer sgl-core if the type is new"
            )
        columns = shape[-1] if shape else 1
        if columns % kind.block:
            raise GgufError(
                f"{self.path}: tensor {name!r} ({kind.name}, type id {type_id}) has rows of {columns} elements, "
                f"which is no multiple of its block of {kind.block}"
            )
        count = 1
        for extent in shape:
            count *= extent
        nbytes = count // kind.block * kind.block_bytes
        if offset + nbytes > len(self.data):
            raise GgufError(
                f"{self.path}: tensor {name!r} ends at byte {offset + nbytes} but the file has {len(self.data)}; "
                "the download is incomplete"
            )
        return GgufTensor(name, shape, kind, offset, nbytes)

    def u32(self) -> int:
        (value,) = _U32.unpack_from(self.data, self.at)
        self.at += 4
        return int(value)

    def u64(self) -> int:
        (value,) = _U64.unpack_from(self.data, self.at)
        self.at += 8
        return int(value)

    def string(self) -> str:
        length = self.u64()
        start, self.at = self.at, self.at + length
        if self.at > len(self.data):
            raise IndexError
        return self.data[start : self.at].decode("utf-8", errors="replace")

    def value(self, kind: int, key: str) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self.array(key)
        unpack = _UNPACK.get(kind)
        if unpack is None:
            raise GgufError(f"{self.path}: metadata key {key!r} has the unknown value type {kind}")
        (value,) = unpack.unpack_from(self.data, self.at)
        self.at += unpack.size
        return value

    def array(self, key: str) -> Sequence[Any]:
        kind, count = self.u32(), self.u64()
        if kind == _STRING:
            return self.strings(count)
        if kind == _ARRAY:
            return [self.array(key) for _ in range(count)]
        if kind not in _SCALARS:
            raise GgufError(f"{self.path}: metadata key {key!r} is an array of the unknown value type {kind}")
        dtype = np.dtype(_SCALARS[kind])
        start, self.at = self.at, self.at + count * dtype.itemsize
        if self.at > len(self.data):
            raise IndexError
        values: list[Any] = np.frombuffer(self.data[start : self.at], dtype=dtype).tolist()
        return values

    def strings(self, count: int) -> TextArray:
        # The hot loop of a vocabulary: locals instead of method calls.
        data, at, unpack = self.data, self.at, _U64.unpack_from
        first, starts = at, []
        for _ in range(count):
            starts.append(at - first)
            at += 8 + unpack(data, at)[0]
        if at > len(data):
            raise IndexError
        self.at = at
        return TextArray(data[first:at], starts)
