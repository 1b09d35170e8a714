"""docs/registries.md and docs/write-a-plugin.md say what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sgl_core.registry import TABLE, Registries
from sgl_core.testing.fake_dists import fake_dist
from sgl_core.testing.kit import check_dist

DOCS = Path(__file__).parents[3] / "docs"


def test_every_registry_is_in_the_table_and_no_other() -> None:
    text = (DOCS / "registries.md").read_text()
    table = text.partition("## The registries")[2].partition("\n\nEvery spec")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == {info.name for info in TABLE}


def test_the_toy_of_the_tutorial_works(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DOCS / "write-a-plugin.md").read_text()
    specs, policy = re.findall(r"```python\n(.*?)```", text, re.S)[:2]
    (value,) = re.findall(r'^newest = "(.+)"$', text, re.M)
    modules = {"my_evictions/__init__.py": "", "my_evictions/specs.py": specs, "my_evictions/policy.py": policy}
    fake_dist(site, "my-evictions", "1.0.0", {"eviction_policies": {"newest": value}}, modules)
    monkeypatch.setenv("PYTHONPATH", str(site))
    registries = Registries.discover(path=[str(site)])
    assert check_dist("my-evictions", registries) == []
    assert registries.eviction_policies.load("newest")().key(type("Node", (), {"created": 3.0})) == -3.0
