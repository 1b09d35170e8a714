"""Which files of a folder are the model's weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sgl_core.checkpoint import CheckpointError, describe


def write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def names(root: Path) -> list[str]:
    return [file.name for file in describe(root).weights]


@pytest.mark.field_case("157")
def test_index_decides_and_stray_files_are_left_alone(hf_folder: Path) -> None:
    for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "consolidated.safetensors"):
        (hf_folder / name).write_bytes(b"x" * 10)
    (hf_folder / "pytorch_model.bin").write_bytes(b"x")
    index = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    write(hf_folder / "model.safetensors.index.json", {"weight_map": index})
    files = describe(hf_folder)
    assert names(hf_folder) == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert (files.load_format, files.index, files.weight_bytes) == ("safetensors", index, 20)


def test_single_file_wins_over_strays(hf_folder: Path) -> None:
    for name in ("model.safetensors", "consolidated.safetensors", "model-00001-of-00002.safetensors"):
        (hf_folder / name).write_bytes(b"x")
    assert names(hf_folder) == ["model.safetensors"]


def test_left_over_index_beside_the_merged_file(hf_folder: Path) -> None:
    (hf_folder / "model.safetensors").write_bytes(b"x")
    write(hf_folder / "model.safetensors.index.json", {"weight_map": {"a": "gone.safetensors"}})
    assert names(hf_folder) == ["model.safetensors"]


def test_missing_shard_is_named(hf_folder: Path) -> None:
    write(hf_folder / "model.safetensors.index.json", {"weight_map": {"a": "gone.safetensors"}})
    with pytest.raises(CheckpointError, match=r"1 of 1 weight files are missing, first 'gone\.safetensors'"):
        describe(hf_folder)


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd"])
def test_index_cannot_leave_the_folder(hf_folder: Path, name: str) -> None:
    write(hf_folder / "model.safetensors.index.json", {"weight_map": {"a": name}})
    with pytest.raises(CheckpointError, match="outside the model's folder"):
        describe(hf_folder)


def test_pytorch_files(hf_folder: Path) -> None:
    for name in ("pytorch_model-1.bin", "pytorch_model-2.bin", "training_args.bin", "optimizer.bin"):
        (hf_folder / name).write_bytes(b"x")
    assert (describe(hf_folder).load_format, names(hf_folder)) == ("pt", ["pytorch_model-1.bin", "pytorch_model-2.bin"])


def test_no_weights_is_for_the_dummy_format(hf_folder: Path) -> None:
    assert (describe(hf_folder).load_format, names(hf_folder)) == ("dummy", [])


def test_generation_config_is_read(hf_folder: Path) -> None:
    write(hf_folder / "generation_config.json", {"repetition_penalty": 1.1})
    assert describe(hf_folder).generation_config == {"repetition_penalty": 1.1}


def test_gguf_in_a_folder(make_gguf: Callable[..., Path], tmp_path: Path) -> None:
    path = make_gguf()
    (tmp_path / "mmproj-x.gguf").write_bytes(b"x")
    files = describe(tmp_path)
    assert (files.kind, files.path, files.root) == ("gguf", path, tmp_path)
    make_gguf(name="other.gguf")
    with pytest.raises(CheckpointError, match=r"several GGUF models here \(other\.gguf, tiny\.gguf\)"):
        describe(tmp_path)


def test_gguf_shards(make_gguf: Callable[..., Path], tmp_path: Path) -> None:
    first = make_gguf(name="m-00001-of-00002.gguf")
    with pytest.raises(CheckpointError, match=r"shards missing.*m-00002-of-00002\.gguf"):
        describe(first)
    second = make_gguf(name="m-00002-of-00002.gguf")
    assert describe(second).weights == (first, second)
    assert describe(tmp_path).path == first


@pytest.mark.parametrize("content", ["{", "[]", "\x00"])
def test_broken_config_is_named(hf_folder: Path, content: str) -> None:
    (hf_folder / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        describe(hf_folder)


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no config\.json and no \.gguf"):
        describe(tmp_path)
    with pytest.raises(CheckpointError, match="no such file or folder"):
        describe(tmp_path / "nothing")
    (tmp_path / "x.safetensors").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="expected a folder"):
        describe(tmp_path / "x.safetensors")
