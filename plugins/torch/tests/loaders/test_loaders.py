"""Safetensors, PyTorch and random weights, and how a format is chosen."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sgl_core.api.checkpoint import describe
from sgl_core.registry import Registries
from sgl_torch.loaders import LoadError, iterate

A, B, WRONG = torch.ones(2, 3), torch.full((4,), 2.0, dtype=torch.bfloat16), torch.full((2, 3), 9.0)


def load(root: Path, load_format: str = "auto", **options: object) -> dict[str, torch.Tensor]:
    found = dict(iterate(describe(root), load_format, **options))  # type: ignore[arg-type]
    assert all(isinstance(tensor, torch.Tensor) for tensor in found.values())
    return found  # type: ignore[return-value]


def index(root: Path, stem: str, suffix: str, weight_map: dict[str, str]) -> None:
    (root / f"{stem}{suffix}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> bool:
    return found.keys() == expected.keys() and all(
        torch.equal(found[name], expected[name]) and found[name].dtype == expected[name].dtype for name in expected
    )


def test_single_file_with_progress(hf_root: Path) -> None:
    save_file({"a": A, "b": B}, hf_root / "model.safetensors")
    calls: list[tuple[str, int, int]] = []
    assert same(load(hf_root, progress=lambda *call: calls.append(call)), {"a": A, "b": B})
    size = (hf_root / "model.safetensors").stat().st_size
    assert calls[-1] == ("loading weights", size, size)
    assert [done for _, done, _ in calls] == sorted(done for _, done, _ in calls)


@pytest.mark.field_case("157", "158")
@pytest.mark.parametrize(("stem", "suffix"), [("model", ".safetensors"), ("pytorch_model", ".bin")])
def test_index_assignment_wins_and_strays_are_ignored(
    hf_root: Path, stem: str, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    def save(tensors: dict[str, torch.Tensor], name: str) -> None:
        save_file(tensors, hf_root / name) if suffix == ".safetensors" else torch.save(tensors, hf_root / name)

    first, second = f"{stem}-00001-of-00002{suffix}", f"{stem}-00002-of-00002{suffix}"
    save({"a": A}, first)
    save({"a": WRONG, "b": B, "extra": WRONG.clone()}, second)
    save({"a": WRONG, "b": WRONG.clone()}, f"consolidated{suffix}")
    index(hf_root, stem, suffix, {"a": first, "b": second})
    with caplog.at_level(logging.WARNING):
        assert same(load(hf_root), {"a": A, "b": B})
    assert "1 tensors are not in the index and are left out: extra" in caplog.text


def test_index_that_promises_too_much(hf_root: Path) -> None:
    save_file({"a": A}, hf_root / "model-1.safetensors")
    index(hf_root, "model", ".safetensors", {"a": "model-1.safetensors", "gone": "model-1.safetensors"})
    with pytest.raises(LoadError, match=r"assigns gone to model-1\.safetensors, but the file does not hold it"):
        load(hf_root)


def test_same_tensor_in_two_files_without_an_index(hf_root: Path) -> None:
    save_file({"a": A}, hf_root / "x-1.safetensors")
    save_file({"a": WRONG}, hf_root / "x-2.safetensors")
    with pytest.raises(LoadError, match=r"'a' is in both x-1\.safetensors and x-2\.safetensors"):
        load(hf_root)


def test_cut_off_safetensors_is_named(hf_root: Path) -> None:
    save_file({"a": A}, hf_root / "model.safetensors")
    whole = (hf_root / "model.safetensors").read_bytes()
    (hf_root / "model.safetensors").write_bytes(whole[:-4])
    with pytest.raises(LoadError, match=r"model\.safetensors.*incomplete"):
        load(hf_root)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("wrapper", [None, "state_dict", "model"])
def test_pytorch_files(hf_root: Path, zipped: bool, wrapper: str | None) -> None:
    content: dict[str, object] = {"a": A, "b": B, "step": 3}
    torch.save(
        content if wrapper is None else {wrapper: content},
        hf_root / "pytorch_model.bin",
        _use_new_zipfile_serialization=zipped,
    )
    assert same(load(hf_root), {"a": A, "b": B})


class Attack:
    """Would write a file when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


def test_code_in_a_pickle_never_runs(hf_root: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    torch.save({"a": Attack(mark)}, hf_root / "pytorch_model.bin")
    with pytest.raises(LoadError, match=r"pytorch_model\.bin: the file holds more than weights.*safetensors"):
        load(hf_root)
    assert not mark.exists()
    (hf_root / "pytorch_model.bin").write_bytes(pickle.dumps(Attack(mark), protocol=2))
    with pytest.raises(LoadError, match=r"pytorch_model\.bin"):
        load(hf_root)
    assert not mark.exists()


def test_unreadable_pickle_and_no_mapping(hf_root: Path) -> None:
    (hf_root / "pytorch_model.bin").write_bytes(b"junk")
    with pytest.raises(LoadError, match=r"pytorch_model\.bin"):
        load(hf_root)
    torch.save([A], hf_root / "pytorch_model.bin")
    with pytest.raises(LoadError, match="expected a mapping of names to tensors, found list"):
        load(hf_root)


def test_explicit_format_beside_another(hf_root: Path) -> None:
    save_file({"a": A}, hf_root / "model.safetensors")
    torch.save({"b": B}, hf_root / "pytorch_model.bin")
    assert load(hf_root).keys() == {"a"}
    assert load(hf_root, "pt").keys() == {"b"}


@pytest.mark.parametrize(
    ("name", "needs"), [("safetensors", r"\*\.safetensors"), ("pt", r"\*\.bin"), ("gguf", r"\.gguf")]
)
def test_format_without_its_files(hf_root: Path, name: str, needs: str) -> None:
    with pytest.raises(LoadError, match=needs):
        load(hf_root, name)


def test_no_weights_and_unknown_formats(hf_root: Path) -> None:
    with pytest.raises(LoadError, match="--load-format dummy"):
        load(hf_root)
    with pytest.raises(LoadError, match=r"'zip' is not known \(known: auto, dummy, gguf, pt, safetensors\)"):
        load(hf_root, "zip")


def test_dummy_is_seeded_by_name_and_scaled(hf_root: Path) -> None:
    expected = {"a.weight": (300, 400), "norm.weight": (7,), "a.bias": (5,)}
    first = load(hf_root, "dummy", expected=expected)
    again = load(hf_root, "dummy", expected=dict(reversed(expected.items())))
    assert all(torch.equal(first[name], again[name]) for name in expected)
    assert {name: tuple(tensor.shape) for name, tensor in first.items()} == expected
    assert float(first["a.weight"].std()) == pytest.approx(400**-0.5, rel=0.02)
    assert torch.equal(first["norm.weight"], torch.ones(7))
    assert torch.equal(first["a.bias"], torch.zeros(5))
    assert not torch.equal(first["a.weight"], load(hf_root, "dummy", expected=expected, seed=1)["a.weight"])
    assert load(hf_root, "dummy", expected=expected, dtype=torch.bfloat16)["a.weight"].dtype == torch.bfloat16
    with pytest.raises(LoadError, match="must be told"):
        load(hf_root, "dummy")


def test_formats_of_the_registry(hf_root: Path) -> None:
    save_file({"a": A}, hf_root / "model.safetensors")
    registries = Registries.discover()
    assert {"safetensors", "pt", "gguf", "dummy"} <= set(registries.load_formats.names())
    assert same(load(hf_root, registries=registries), {"a": A})
