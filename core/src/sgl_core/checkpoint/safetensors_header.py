"""Reading the header of a safetensors file: names, dtypes, shapes and byte ranges, without torch.

Format: 8 bytes little-endian header length N, N bytes of JSON, then the data (huggingface.co/docs/safetensors).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

_LARGEST_HEADER = 100_000_000  # the limit that the format's own library keeps


class SafetensorsError(ValueError):
    """The file is no complete safetensors file; the message names it."""


@dataclass(frozen=True, slots=True)
class SafetensorsEntry:
    """One tensor: ``dtype`` as the format writes it (``BF16``, ``F32`` ...), ``offset`` in bytes from the file's start."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


def read_safetensors_header(path: Path) -> dict[str, SafetensorsEntry]:
    """Map tensor names to their entries. Raises :class:`SafetensorsError` for a broken file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(_LARGEST_HEADER, size - 8):
            raise SafetensorsError(f"{path}: not a safetensors file, or its header is cut off")
        try:
            header = json.loads(file.read(length))
        except ValueError as error:
            raise SafetensorsError(f"{path}: the safetensors header is not JSON: {error}") from None
    entries: dict[str, SafetensorsEntry] = {}
    for name, fields in header.items():
        if name == "__metadata__":
            continue
        begin, end = fields["data_offsets"]
        if 8 + length + end > size:
            raise SafetensorsError(f"{path}: tensor {name!r} ends beyond the file; the download is incomplete")
        entries[name] = SafetensorsEntry(fields["dtype"], tuple(fields["shape"]), 8 + length + begin, end - begin)
    return entries
