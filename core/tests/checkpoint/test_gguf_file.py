"""The GGUF header reader: against the gguf package's own writer and constants, and on broken files."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf.constants import GGML_QUANT_SIZES

from sgl_core.checkpoint.gguf_file import GgufError, read_gguf
from sgl_core.checkpoint.gguf_types import GGML_TYPES


def test_types_are_those_of_the_gguf_package() -> None:
    ours = {(kind.id, kind.name): (kind.block, kind.block_bytes) for kind in GGML_TYPES.values()}
    assert ours == {(int(kind), kind.name): sizes for kind, sizes in GGML_QUANT_SIZES.items()}


def test_reads_metadata_and_tensors(make_gguf: Callable[..., Path]) -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    path = make_gguf(
        metadata={"a.list": ["x", "ü"], "a.flag": True, "a.floats": [0.5, 1.5], "a.text": "日本"}, tensors={"t": data}
    )
    file = read_gguf(path)
    assert file.architecture == "llama"
    texts = file.metadata["a.list"]
    assert (list(texts), texts[-1], texts[:1], len(texts)) == (["x", "ü"], "ü", ["x"], 2)
    assert file.metadata["a.flag"] is True
    assert file.metadata["a.floats"] == [0.5, 1.5]
    assert file.metadata["a.text"] == "日本"
    tensor = file.tensors["t"]
    assert (tensor.shape, tensor.type.name) == ((2, 3), "F32")
    raw = file.map()[tensor.offset : tensor.offset + tensor.nbytes]
    np.testing.assert_array_equal(raw.view(np.float32).reshape(2, 3), data)


def header(type_id: int, columns: int = 256) -> bytes:
    name = b"blk.0.attn_q.weight"
    entry = struct.pack("<Q", len(name)) + name + struct.pack("<IQQIQ", 2, columns, 1, type_id, 0)
    return b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + entry + bytes(4096)


@pytest.mark.field_case("160")
def test_unknown_type_names_file_tensor_and_id(tmp_path: Path) -> None:
    path = tmp_path / "odd.gguf"
    path.write_bytes(header(250))
    with pytest.raises(GgufError, match=r"odd\.gguf.*'blk\.0\.attn_q\.weight'.*250"):
        read_gguf(path)


def test_mxfp4_is_known(tmp_path: Path) -> None:
    path = tmp_path / "mx.gguf"
    path.write_bytes(header(39))
    tensor = read_gguf(path).tensors["blk.0.attn_q.weight"]
    assert (tensor.type.name, tensor.nbytes) == ("MXFP4", 256 // 32 * 17)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04" + bytes(40), "not a GGUF file"),
        (b"GGUF", "not a GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 9), "cut off"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 60) + b"x", "cut off"),
        (header(12, columns=100), "no multiple of its block"),
        (header(0, columns=1 << 20), "incomplete"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    with pytest.raises(GgufError, match=message) as caught:
        read_gguf(path)
    assert "broken.gguf" in str(caught.value)


def test_every_cut_of_a_good_header_is_an_error(make_gguf: Callable[..., Path], tmp_path: Path) -> None:
    whole = make_gguf(metadata={"a.list": ["x", "yy"], "a.n": [1, 2, 3]}).read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in range(0, len(whole) - 1, 7):
        cut.write_bytes(whole[:length])
        with pytest.raises(GgufError, match="cut"):
            read_gguf(cut)
