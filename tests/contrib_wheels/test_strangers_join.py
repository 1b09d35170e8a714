"""Packages from outside are listed, conform, show in help, are validated alike on every way in, and are explained.

Field case 190: choices know plugins, and command line, environment and file are checked in the same way.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stranger_environment import CONTRIB, PACKAGES, Environment

pytestmark = pytest.mark.field_case("190")

MODEL = "LlamaForCausalLM"


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A config.json: all that an explanation needs of a model."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
        "max_position_embeddings": 512,
        "vocab_size": 320,
        "torch_dtype": "float32",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    return str(tmp_path)


def test_they_are_listed_with_their_owner(stranger: Environment) -> None:
    data = stranger.json("plugin", "list", "--json")
    theirs = {(row["registry"], row["name"]): row for row in data["entries"] if row["dist"] in PACKAGES}
    assert set(theirs) == {
        ("attention", "example_attention"),
        ("attention", "example_vendor"),
        ("grammars", "example_words"),
        ("models", "Starcoder2ForCausalLM"),
        ("moe_runners", "example_vendor"),
        ("rules", "example_vendor"),
        ("tool_parsers", "example_calls"),
    }
    assert all(row["state"] == "ok" and row["version"] == "1.0.0" for row in theirs.values())
    assert data["problems"] == []


@pytest.mark.parametrize("name", PACKAGES)
def test_they_conform(stranger: Environment, name: str) -> None:
    assert stranger.json("plugin", "check", name, "--json") == []


@pytest.mark.parametrize("name", PACKAGES)
def test_their_own_tests_pass(stranger: Environment, name: str) -> None:
    done = stranger.run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(CONTRIB / name / "tests"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_they_are_not_in_the_projects_own_environment() -> None:
    from sgl_core.registry import Registries

    assert not set(PACKAGES) & set(Registries.discover().installed)


def test_help_lists_their_values_and_options(stranger: Environment) -> None:
    page = stranger.sgl("serve", "--help", "attention")
    for word in ("example_attention", "example_vendor", "torch_native"):
        assert word in page
    assert "example_attention.block" in stranger.sgl("serve", "--help", "example_attention")


def test_a_value_is_checked_alike_on_every_way_in(stranger: Environment, model: str, tmp_path: Path) -> None:
    def final(*args: str, env: dict[str, str] | None = None) -> str:
        told = json.loads(stranger.sgl("explain", model, "attention_backend", "--json", *args, env=env))
        return json.dumps(told)

    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("attention_backend: example_attention\n")
    bad.write_text("attention_backend: exampel_attention\n")
    for args, env in (
        (["--attention-backend", "example_attention"], None),
        (["--config", str(good)], None),
        ([], {"SGL_ATTENTION_BACKEND": "example_attention"}),
    ):
        assert "example_attention" in final(*args, env=env)
    for args, env in (
        (["--attention-backend", "exampel_attention"], None),
        (["--config", str(bad)], None),
        ([], {"SGL_ATTENTION_BACKEND": "exampel_attention"}),
    ):
        done = stranger.run("-m", "sgl_core", "explain", model, "attention_backend", *args, env=env)
        assert done.returncode != 0
        assert "exampel_attention" in done.stderr
        assert "example_attention" in done.stderr


def test_the_vendors_rule_is_in_the_ledger_with_its_owner(stranger: Environment, model: str) -> None:
    told = stranger.sgl("explain", model, "attention_backend", "--attention-backend", "example_vendor", "--json")
    assert "example_vendor recommends torch_native on cpu" in told
    assert "sgl-example-vendor" in told
    assert "1.0.0" in told
    json.loads(told)


def test_safe_mode_leaves_them_out(stranger: Environment, model: str) -> None:
    done = stranger.run("-m", "sgl_core", "explain", model, "--safe-mode", "--attention-backend", "example_attention")
    assert done.returncode != 0
    assert "example_attention" in done.stderr
    rows = stranger.json("plugin", "list", "--json", "--safe-mode", "--registry", "attention")["entries"]
    assert {row["name"]: row["state"] for row in rows}["example_attention"] == "excluded"
