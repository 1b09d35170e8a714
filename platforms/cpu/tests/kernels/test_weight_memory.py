"""Memory of packed weights: aligned, apart, and given back when the last matrix of a region is gone."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np

from sgl_cpu.kernels.memory import WeightMemory, forget


def test_pieces_are_aligned_and_apart() -> None:
    memory = WeightMemory()
    pieces = [memory.take(size) for size in (100, 1, 40 << 20, 4096, 20 << 20, 20 << 20)]
    for number, piece in enumerate(pieces):
        piece[:] = number
    assert [int(piece[0]) for piece in pieces] == list(range(6))
    assert [int(piece[-1]) for piece in pieces] == list(range(6))
    assert all(piece.__array_interface__["data"][0] % 64 == 0 for piece in pieces)


def test_a_region_ends_with_its_last_piece() -> None:
    memory = WeightMemory()
    first, second = memory.take(100), memory.take(100)
    region = weakref.ref(first.base)
    memory.close()
    del first
    gc.collect()
    assert region() is not None
    del second
    gc.collect()
    assert region() is None


def resident(array: np.ndarray) -> int:
    """KiB of the mapping around ``array`` that are in memory, from /proc/self/smaps."""
    address, size = array.__array_interface__["data"][0], 0
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            low, high = (int(word, 16) for word in words[0].split("-"))
            inside = low <= address < high
        elif inside and words[0] == "Rss:":
            size = int(words[1])
    return size


def test_pages_of_a_mapped_file_are_given_back(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 4096)
    whole = np.memmap(path, np.uint8, mode="c")
    part = np.asarray(whole)[5000:900_000].reshape(5, -1)
    total = int(part.sum())
    before = resident(part)
    forget(part)
    assert resident(part) < before - 500
    assert int(part.sum()) == total
    forget(np.zeros(100_000))
