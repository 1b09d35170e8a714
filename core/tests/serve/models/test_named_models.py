"""How several models are named: on the command line, in a file, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sgl_core.config import ConfigError, ServerArgs
from sgl_core.registry import Registries
from sgl_core.registry.hooks import Hooks
from sgl_core.serve.models.host import ModelsHost
from sgl_core.serve.models.named import named_models, several


def read(*words: str) -> ServerArgs:
    return ServerArgs.from_sources(cli=list(words))


def test_the_command_line_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registries: Registries) -> None:
    args = read("--model", "a=/x/a", "--model-path=org/b=pypi:b", "--context-length", "64", "--models-memory", "1.5G")
    assert several(args)
    assert args.get("models") == ["a=/x/a", "org/b=pypi:b"]
    assert args.get("models_memory") == 1_500_000_000
    models = named_models(args, registries)
    assert [(model.name, model.args.get("model_path")) for model in models] == [("a", "/x/a"), ("org/b", "pypi:b")]
    assert {model.args.get("context_length") for model in models} == {64}
    assert {model.args.get("served_model_name") for model in models} == {"a", "org/b"}
    (tmp_path / "run=3").mkdir()
    monkeypatch.chdir(tmp_path)
    assert read("--model", "run=3").get("model_path") == "run=3"
    assert read("--model", "/data/run=3/x").get("model_path") == "/data/run=3/x"
    assert not several(read("--model", "/x"))


def test_a_file_names_them_with_settings(tmp_path: Path, registries: Registries) -> None:
    file = tmp_path / "models.yaml"
    file.write_text("models:\n  a: /x/a\n  b: {path: /x/b, memory: 2Gi, preload: true, context-length: 128}\n")
    a, b = named_models(read("--models-file", str(file), "--context-length", "64"), registries)
    assert (a.memory, a.preload, a.args.get("context_length")) == (None, False, 64)
    assert (b.memory, b.preload, b.args.get("context_length")) == (2 << 30, True, 128)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1]", "mapping"),
        ("a: 5", "model a: must be a path"),
        ("a: {context_length: 5}", "names no model_path"),
        ("a: {path: /x, memory: lots}", "memory"),
        ("a: {path: /x, preload: 3}", "preload"),
        ("a: {path: /x, port: 3}", "port holds for the whole server"),
        ("a: {path: /x, no_such_thing: 3}", "no_such_thing"),
        ("a: {path: /x, schedule_policy: nonsense}", "schedule_policy"),
    ],
)
def test_wrong_files_are_told(tmp_path: Path, registries: Registries, text: str, told: str) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=told):
        named_models(read("--models-file", str(file)), registries)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--model", "a=/x", "--model", "a=/y"], "two models have the name"),
        (["/x", "--model", "a=/y"], "stands beside"),
        (["--model", "a=/x", "--served-model-name", "b"], "stands beside"),
        (["--models", "/x"], "not NAME=PATH"),
    ],
)
def test_wrong_command_lines_are_told(registries: Registries, words: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        named_models(read(*words), registries)


def test_a_model_that_can_never_fit_is_told_at_start(
    folders: dict[str, Path], registries: Registries, tmp_path: Path
) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(f"a: {{path: {folders['a']}, memory: 20}}\n")
    args: dict[str, Any] = {"device": "null", "models_file": str(file), "models_memory": 10}
    with pytest.raises(ConfigError, match="models-memory 10"):
        ModelsHost(ServerArgs.of(**args), registries, Hooks(Registries()))
