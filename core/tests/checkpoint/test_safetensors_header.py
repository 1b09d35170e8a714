"""The safetensors header, against the format's own library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from sgl_core.checkpoint.safetensors_header import SafetensorsError, read_safetensors_header


def test_names_dtypes_shapes_and_places(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tensors: dict[str, np.ndarray] = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(5, np.float16)}
    save_file(tensors, path, metadata={"format": "pt"})
    entries = read_safetensors_header(path)
    assert {name: (entry.dtype, entry.shape) for name, entry in entries.items()} == {
        "a": ("F32", (2, 3)),
        "b": ("F16", (5,)),
    }
    content = path.read_bytes()
    for name, dtype in (("a", np.float32), ("b", np.float16)):
        entry = entries[name]
        read = np.frombuffer(content[entry.offset : entry.offset + entry.nbytes], dtype).reshape(entry.shape)
        np.testing.assert_array_equal(read, tensors[name])


def test_broken_files(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"a": np.zeros(64, np.float32)}, path)
    whole = path.read_bytes()
    for content, message in (
        (b"", "not a safetensors"),
        (whole[:20], "not a safetensors"),
        (whole[:-1], "ends beyond the file"),
        (b"\x10" + bytes(7) + b"not json at all!", "not JSON"),
    ):
        path.write_bytes(content)
        with pytest.raises(SafetensorsError, match=message):
            read_safetensors_header(path)
