"""Packages that clash, are stale or lack a dependency stop at start-up with their names. Field cases 187, 191 and 193."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stranger_environment import Environment, make_environment

from sgl_core.testing.fake_dists import fake_dist

pytestmark = pytest.mark.field_case("187", "191", "193")


@pytest.fixture
def clashing(wheels: dict[str, Path], tmp_path: Path) -> Iterator[Environment]:
    """Two packages that offer one attention backend, and one that takes the name of ours."""
    environment = make_environment(tmp_path / "venv")
    environment.install(wheels["sgl-example-attention"])
    entries = {"attention": {"example_attention": "rival:SPEC", "torch_native": "rival:SPEC"}}
    fake_dist(environment.site_packages, "rival-attention", "2.0", entries, {"rival.py": "raise RuntimeError\n"})
    return environment


def test_two_owners_of_a_name_stop_with_both_named(clashing: Environment) -> None:
    code = "from sgl_core.registry import Registries; Registries.discover().check()"
    done = clashing.run("-c", code)
    assert done.returncode != 0
    assert "is claimed by rival-attention 2.0 and sgl-example-attention 1.0.0" in done.stderr
    rows = clashing.json("plugin", "list", "--json", "--registry", "attention")["entries"]
    conflicts = {(row["name"], row["dist"]) for row in rows if row["state"] == "conflict"}
    assert conflicts == {
        ("example_attention", "rival-attention"),
        ("example_attention", "sgl-example-attention"),
        ("torch_native", "rival-attention"),
        ("torch_native", "sgl-torch"),
    }


@pytest.mark.parametrize("name", ["example_attention", "torch_native"])
def test_serving_stops_and_says_how_to_decide(clashing: Environment, name: str) -> None:
    message = clashing.sgl("serve", "--attention-backend", name, status=1)
    assert "rival-attention 2.0" in message
    assert f"--prefer attention.{name}=" in message or "--prefer attention." in message


def test_a_decision_ends_the_clash(clashing: Environment) -> None:
    rows = clashing.json(
        "plugin",
        "list",
        "--json",
        "--registry",
        "attention",
        "--prefer",
        "attention.example_attention=sgl-example-attention",
    )["entries"]
    states = {row["dist"]: row["state"] for row in rows if row["name"] == "example_attention"}
    assert states == {"sgl-example-attention": "ok", "rival-attention": "passed over"}


PLATFORM = (
    "from sgl_core.api import PlatformSpec\n"
    "SPEC = PlatformSpec(name='ghost', target='ghost_runtime:X', probe='ghost_probe:probe', probe_order=50)\n"
)


def test_a_platform_plugin_that_cannot_be_imported_never_gives_cpu_in_silence(tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "venv")
    modules = {
        "ghost_specs.py": PLATFORM,
        "ghost_probe.py": "import ghost_driver\ndef probe(): return None\n",
        "ghost_runtime.py": "X = None\n",
    }
    fake_dist(environment.site_packages, "ghost", "3.1", {"platforms": {"ghost": "ghost_specs:SPEC"}}, modules)
    for command in (["serve"], ["serve", "--device", "ghost"]):
        message = environment.sgl(*command, status=1)
        for word in ("'ghost' of ghost 3.1", "ghost_driver", "Traceback", "ghost_probe.py", "--device"):
            assert word in message
    report = environment.run("-m", "sgl_core", "doctor").stdout
    assert "ghost_driver" in report


def test_a_plugin_whose_extra_is_missing_says_so_before_it_is_used(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "venv")
    spec = (
        "from sgl_core.api import AttentionSpec\n"
        "SPEC = AttentionSpec(name='needy', target='needy_backend:make', requires=('fast-kernels>=2',))\n"
    )
    modules = {"needy_specs.py": spec, "needy_backend.py": "import fast_kernels\n"}
    fake_dist(environment.site_packages, "needy", "1.0", {"attention": {"needy": "needy_specs:SPEC"}}, modules)
    (row,) = environment.json("plugin", "list", "--json", "--dist", "needy")["entries"]
    assert row["state"] == "unavailable"
    assert "pip install 'fast-kernels>=2'" in row["why"]
    message = environment.sgl("serve", "--attention-backend", "needy", status=1)
    assert "fast-kernels>=2 is not installed; pip install 'fast-kernels>=2'" in message
