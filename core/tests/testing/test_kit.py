"""The conformance kit finds what it says it finds."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from sgl_core.registry import Registries, RegistryError
from sgl_core.testing.fake_dists import fake_dist
from sgl_core.testing.kit import check_dist

SPECS = dedent("""
    from sgl_core.api import AttentionSpec, Option, RuleSetSpec
    GOOD = AttentionSpec(name="good", target="json:dumps")
    NO_TARGET = AttentionSpec(name="no_target", target="json:absent")
    ROLE = AttentionSpec(name="role", target="json:dumps", roles=("cook",))
    SILENT = AttentionSpec(name="silent", available=False)
    NAME = AttentionSpec(name="name", target="json:dumps", aliases=("a b", "name"))
    OPTION = AttentionSpec(name="option", target="json:dumps", options=(
        Option(name="block", type=int, default="x", help="h"), Option(name="option.y", choices=("a",), default="b"),
    ))
    REQUIRES = AttentionSpec(name="requires", target="json:dumps", requires=("???",))
    VALUE = AttentionSpec(name="value", target="json:__all__")
    RULES = RuleSetSpec(name="rules", target="kit_rules:RULES")
""")
RULES = dedent("""
    import itertools
    from sgl_core.api import rule, suggest
    count = itertools.count()
    @rule(stage="model", writes=("page_size",))
    def pure(view, facts, model):
        if not view.explicit("page_size"):
            yield suggest("page_size", 16, because="x")
    @rule(stage="model", writes=("page_size",))
    def impure(view, facts, model):
        yield suggest("page_size", next(count), because="x")
    @rule(stage="model")
    def unannounced(view, facts, model):
        yield suggest("page_size", 16, because="x")
    @rule(stage="later", writes=())
    def misplaced(view, facts, model):
        return []
    @rule(stage="model")
    def mistaken(view, facts, model):
        yield suggest("x", view.no_such_field, because="x")
    RULES = (pure, impure, unannounced, misplaced, mistaken)
""")
EXPECTED = {
    "attention.no_target": ["has no attribute 'absent'"],
    "attention.role": ["roles cook are none of"],
    "attention.silent": ["not why"],
    "attention.name": ["'a b' is not a legal name", "its own name as an alias"],
    "attention.option": ["must be named option.<option>", "default 'x' is no int", "none of its choices", "no help"],
    "attention.requires": ["'???' is not a valid requirement"],
    "attention.value": ["cannot be called"],
    "rules.rules": [
        "rule impure answers differently",
        "rule unannounced declares page_size",
        "there is no stage 'later'",
        "rule mistaken: there is no configuration field 'no_such_field'",
    ],
}


@pytest.fixture
def registries(site: Path) -> Registries:
    names = ["good", "no_target", "role", "silent", "name", "option", "requires", "value"]
    entries = {
        "attention": {name: f"kit_specs:{name.upper()}" for name in names},
        "rules": {"rules": "kit_specs:RULES"},
    }
    fake_dist(site, "acme", "1.0", entries, {"kit_specs.py": SPECS, "kit_rules.py": RULES})
    fake_dist(
        site,
        "clean",
        "1.0",
        {"attention": {"good2": "clean_specs:GOOD"}},
        {
            "clean_specs.py": "from sgl_core.api import AttentionSpec\nGOOD = AttentionSpec(name='good2', target='json:dumps')\n"
        },
    )
    return Registries.discover(path=[str(site)])


def test_each_fault_is_found(registries: Registries) -> None:
    found: dict[str, list[str]] = {}
    for finding in check_dist("acme", registries):
        found.setdefault(finding.entry, []).append(finding.problem)
    found.pop("kit_specs", None)
    assert set(found) == set(EXPECTED)
    for entry, words in EXPECTED.items():
        for word in words:
            assert any(word in problem for problem in found[entry]), (entry, word, found[entry])


def test_a_conforming_distribution_has_no_findings(registries: Registries) -> None:
    assert check_dist("clean", registries) == []


def test_heavy_imports_in_spec_modules_are_found(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(site))
    modules = {
        "torch/__init__.py": "",
        "heavy_specs.py": "import torch\nfrom sgl_core.api import AttentionSpec\nS = AttentionSpec(name='s')\n",
    }
    fake_dist(site, "heavy", "1.0", {"attention": {"s": "heavy_specs:S"}}, modules)
    findings = check_dist("heavy", Registries.discover(path=[str(site)]), load=False)
    assert [(f.entry, f.problem.split(";")[0]) for f in findings] == [("heavy_specs", "importing it imports torch")]


def test_a_stranger_is_an_error(registries: Registries) -> None:
    with pytest.raises(RegistryError, match="nobody offers no entry"):
        check_dist("nobody", registries)
