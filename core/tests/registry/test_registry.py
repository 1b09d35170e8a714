"""Names, specs, objects: what each stage imports, and how each way of failing is told."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from sgl_core.api import AttentionSpec, ChoiceSpec, ModelSpec
from sgl_core.registry import (
    DuplicateNames,
    LoadFailed,
    Registries,
    RegistryError,
    Unavailable,
    UnknownName,
    UnknownRegistry,
)
from sgl_core.testing.fake_dists import fake_dist

SPECS = dedent("""
    from sgl_core.api import AttentionSpec, ChoiceSpec, ModelSpec
    GOOD = AttentionSpec(name="good", target="acme.heavy:Backend", aliases=("fine",), deprecated_aliases=("old_good",))
    PLAIN = ChoiceSpec(name="plain", summary="only a legal value")
    NO_MODULE = AttentionSpec(name="no_module", target="acme.absent:Backend")
    BAD_IMPORT = AttentionSpec(name="bad_import", target="acme.broken:Backend")
    RAISES = AttentionSpec(name="raises", target="acme.raises:Backend")
    NO_ATTRIBUTE = AttentionSpec(name="no_attribute", target="acme.heavy:Nothing")
    NEEDS = AttentionSpec(name="needs", target="acme.heavy:Backend", requires=("not-there>=2", "acme"))
    TOO_OLD = AttentionSpec(name="too_old", target="acme.heavy:Backend", requires=("acme>=9",))
    LATER = AttentionSpec(name="later", available=False, unavailable_because="its kernels come later")
    WRONG_NAME = AttentionSpec(name="other")
    WRONG_CLASS = ModelSpec(name="wrong_class")
""")
NAMES = (
    ["good", "plain", "no_module", "bad_import", "raises", "no_attribute", "needs", "too_old", "later", "wrong_name", "wrong_class"]
)  # fmt: skip


@pytest.fixture
def registries(site: Path) -> Registries:
    fake_dist(
        site,
        "acme",
        "1.0",
        {"attention": {name: f"acme.specs:{name.upper()}" for name in NAMES} | {"no_spec": "acme.nowhere:SPEC"}},
        {
            "acme/__init__.py": "",
            "acme/specs.py": SPECS,
            "acme/heavy.py": "class Backend: pass\n",
            "acme/broken.py": "import acme_needs_this\n",
            "acme/raises.py": "raise OSError('libacme.so: no such file')\n",
        },
    )
    return Registries.discover(path=[str(site)])


def test_names_import_nothing(registries: Registries) -> None:
    assert set(registries.attention.names()) == {*NAMES, "no_spec"}
    assert registries.attention.owner("good").version == "1.0"
    assert "acme" not in sys.modules


def test_specs_import_no_target(registries: Registries) -> None:
    assert registries.attention.spec("good").target == "acme.heavy:Backend"
    assert "acme.heavy" not in sys.modules
    assert registries.attention.load("good").__name__ == "Backend"


def test_registries_by_attribute_and_by_name(registries: Registries) -> None:
    assert registries["attention"] is registries.attention
    with pytest.raises(UnknownRegistry, match=r"did you mean attention"):
        registries["atention"]
    with pytest.raises(AttributeError, match=r"no registry 'atention'"):
        registries.atention  # noqa: B018
    assert issubclass(UnknownRegistry, KeyError)


def test_aliases_resolve_and_deprecated_ones_warn_once(site: Path, registries: Registries) -> None:
    said: list[str] = []
    registries = Registries.discover(path=[str(site)], warn=said.append)
    assert registries.attention.canonical("fine") == "good"
    assert said == []
    assert registries.attention.spec("old_good").name == "good"
    assert registries.attention.load("old_good").__name__ == "Backend"
    assert said == ["attention: 'old_good' is deprecated; use 'good'"]
    assert "fine" in registries.attention
    assert "missing" not in registries.attention
    assert registries.attention.spellings()["old_good"] == "good"


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("no_module", "missing_module", "there is no module 'acme.absent'"),
        ("bad_import", "import_failed", "importing acme.broken failed: it needs the module 'acme_needs_this'"),
        ("raises", "import_failed", "raised OSError: libacme.so"),
        ("no_attribute", "missing_attribute", "has no attribute 'Nothing'"),
        ("plain", "bad_target", "only a legal value"),
        ("wrong_name", "bad_spec", "calls itself 'other'"),
        ("wrong_class", "bad_spec", "is a ModelSpec, not a AttentionSpec"),
        ("no_spec", "missing_module", "there is no module 'acme.nowhere'"),
    ],
)
def test_load_failures_name_dist_version_entry_and_cause(
    registries: Registries, name: str, kind: str, words: str
) -> None:
    with pytest.raises(LoadFailed) as caught:
        registries.attention.load(name)
    error = caught.value
    assert error.kind == kind
    assert (error.dist, error.version, error.name) == ("acme", "1.0", name)
    assert words in str(error)
    assert "acme 1.0" in str(error)


def test_the_original_exception_is_the_cause(registries: Registries) -> None:
    with pytest.raises(LoadFailed) as caught:
        registries.attention.load("raises")
    assert isinstance(caught.value.__cause__, OSError)


def test_unmet_requirements_say_what_to_install(registries: Registries) -> None:
    with pytest.raises(Unavailable, match=r"not-there>=2 is not installed; pip install 'not-there>=2'"):
        registries.attention.load("needs")
    with pytest.raises(Unavailable, match=r"acme>=9 is not met: 1.0 is installed"):
        registries.attention.load("too_old")
    with pytest.raises(Unavailable, match=r"its kernels come later"):
        registries.attention.load("later")


def test_status_reports_without_importing_targets(registries: Registries) -> None:
    status = registries.attention.status
    assert status("good").state == "ok"
    assert status("plain").state == "ok"
    assert status("no_module").state == "failed"
    assert status("needs").state == "unavailable"
    assert status("later").why == "its kernels come later"
    assert status("wrong_class").state == "failed"
    assert "acme.heavy" not in sys.modules


def test_unknown_names_suggest_the_nearest(registries: Registries) -> None:
    with pytest.raises(UnknownName, match=r"attention has no 'no-modul'; did you mean no_module") as caught:
        registries.attention.spec("no-modul")
    assert caught.value.suggestions[0] == "no_module"


def test_an_empty_registry_says_what_to_install(registries: Registries) -> None:
    with pytest.raises(UnknownName, match=r"no installed package offers any; install sgl-models"):
        registries.models.spec("LlamaForCausalLM")


def test_a_broken_spec_does_not_hide_the_others(registries: Registries) -> None:
    assert "good" in {spec.name for spec in registries.attention.specs()}
    assert set(registries.attention.broken()) == {"wrong_name", "wrong_class", "no_spec"}


def test_a_plain_choice_becomes_a_spec_of_the_registry(registries: Registries) -> None:
    spec = registries.attention.spec("plain")
    assert isinstance(spec, AttentionSpec)
    assert spec.summary == "only a legal value"


def test_two_owners_stop_with_both_named(site: Path, registries: Registries) -> None:
    fake_dist(site, "rival", "3.0", {"attention": {"good": "acme.specs:GOOD"}})
    registries = Registries.discover(path=[str(site)])
    for use in (registries.attention.spec, registries.attention.load, registries.attention.owner):
        with pytest.raises(DuplicateNames, match=r"claimed by acme 1.0 and rival 3.0.*--prefer attention.good=acme"):
            use("good")
    with pytest.raises(DuplicateNames):
        registries.check()
    assert "good" in registries.attention.names()
    assert registries.attention.status("good").state == "conflict"
    assert registries.attention.query().rejected["good"].startswith("attention 'good' is claimed by")


def test_prefer_decides_between_owners(site: Path, registries: Registries) -> None:
    fake_dist(site, "rival", "3.0", {"attention": {"good": "acme.specs:GOOD"}})
    registries = Registries.discover(path=[str(site)], prefer=["attention.good=Rival"])
    registries.check()
    assert registries.attention.owner("good").name == "rival"


def test_a_preference_that_nobody_offers_is_an_error(site: Path, registries: Registries) -> None:
    with pytest.raises(RegistryError, match=r"stranger does not offer 'good' in attention \(acme does\)"):
        Registries.discover(path=[str(site)], prefer={"attention.good": "stranger"})


def test_one_alias_of_two_entries_is_a_conflict(registries: Registries) -> None:
    registries.attention.add(AttentionSpec(name="second", aliases=("fine",)), dist="rival")
    with pytest.raises(DuplicateNames, match=r"acme 1.0 and rival"):
        registries.attention.spec("fine")


def test_other_versions_and_unknown_groups_are_reported(site: Path) -> None:
    fake_dist(site, "new", "2.0", {"sgl.attention.v2": {"future": "x:Y"}, "sgl.atention.v1": {"typo": "x:Y"}})
    registries = Registries.discover(path=[str(site)])
    with pytest.raises(Unavailable, match=r"new 2.0 made it for sgl.attention.v2.*upgrade sgl-core"):
        registries.attention.spec("future")
    assert registries.attention.names() == []
    assert any("did you mean attention" in problem for problem in registries.problems)
    assert registries.attention.status("future").state == "incompatible"


def test_adding_by_program(registries: Registries) -> None:
    registries.attention.add(AttentionSpec(name="mine", target="acme.heavy:Backend"))
    registries.add("models", ModelSpec(name="MineForCausalLM"), dist="my-app")
    assert registries.attention.load("mine").__name__ == "Backend"
    assert registries.models.owner("MineForCausalLM").name == "my-app"
    with pytest.raises(DuplicateNames, match=r"acme 1.0 and embedded"):
        registries.attention.add(AttentionSpec(name="good"))
    with pytest.raises(LoadFailed, match=r"not a AttentionSpec"):
        registries.attention.add(ModelSpec(name="M"))  # type: ignore[arg-type]
    registries.attention.add(ChoiceSpec(name="word"))  # type: ignore[arg-type]
    assert isinstance(registries.attention.spec("word"), AttentionSpec)


def test_two_registries_share_nothing(site: Path, registries: Registries) -> None:
    registries.attention.add(AttentionSpec(name="mine"))
    assert "mine" not in Registries.discover(path=[str(site)]).attention


def test_a_choice_that_is_only_announced_gives_way_to_one_that_serves(site: Path, registries: Registries) -> None:
    specs = "from sgl_core.api import AttentionSpec\nLATER = AttentionSpec(name='later', target='acme.heavy:Backend')\n"
    fake_dist(site, "vendor", "3.0", {"attention": {"later": "vendor_specs:LATER"}}, {"vendor_specs.py": specs})
    registries = Registries.discover(path=[str(site)])
    registries.check()
    assert registries.attention.owner("later").name == "vendor"
    assert registries.attention.load("later").__name__ == "Backend"
    with pytest.raises(DuplicateNames, match=r"embedded and vendor 3\.0"):
        registries.attention.add(AttentionSpec(name="later"))


def test_a_program_may_serve_what_is_only_announced(registries: Registries) -> None:
    registries.attention.add(AttentionSpec(name="later", target="acme.heavy:Backend"))
    assert registries.attention.owner("later").name == "embedded"
    assert [spec.name for spec in registries.attention.specs()].count("later") == 1
