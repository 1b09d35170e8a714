"""Allow, deny, safe mode and prefer."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgl_core.registry import Policy, Registries, RegistryError, Unavailable
from sgl_core.testing.fake_dists import fake_dist


@pytest.fixture
def path(site: Path) -> list[str]:
    for name in ("sgl-torch", "acme", "acme-extra", "sgl-lookalike"):
        fake_dist(site, name, "1.0", {"attention": {name.replace("-", "_"): "x:Y"}})
    return [str(site)]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["acme", "acme_extra", "sgl_lookalike", "sgl_torch"]),
        ({"allow": ["acme"]}, ["acme", "sgl_torch"]),
        ({"allow": ["Acme*"]}, ["acme", "acme_extra", "sgl_torch"]),
        ({"deny": ["acme_extra"]}, ["acme", "sgl_lookalike", "sgl_torch"]),
        ({"allow": ["acme*"], "deny": ["acme"]}, ["acme_extra", "sgl_torch"]),
        ({"safe_mode": True}, ["sgl_torch"]),
        ({"safe_mode": True, "deny": ["sgl-torch"]}, []),
    ],
)
def test_which_distributions_take_part(path: list[str], options: dict, names: list[str]) -> None:
    registries = Registries.discover(path=path, **options)
    assert registries.attention.names() == names
    assert {name.replace("-", "_") for name in registries.dists} == set(names)


def test_an_excluded_name_says_by_what(path: list[str]) -> None:
    registries = Registries.discover(path=path, safe_mode=True)
    with pytest.raises(Unavailable, match=r"acme 1.0 offers it, but --safe-mode"):
        registries.attention.spec("acme")
    assert registries.attention.status("acme").state == "excluded"


def test_exclusion_ends_a_conflict(site: Path, path: list[str]) -> None:
    fake_dist(site, "rival", "1.0", {"attention": {"acme": "x:Y"}})
    Registries.discover(path=path, deny=["rival"]).check()


def test_denying_the_core_is_refused() -> None:
    with pytest.raises(RegistryError, match=r"sgl-core"):
        Policy.of(deny=["sgl-*"])


@pytest.mark.parametrize("text", ["attention.fa3", "fa3=dist", "attention.fa3="])
def test_malformed_preferences(text: str) -> None:
    with pytest.raises(RegistryError, match=r"registry\.name=distribution"):
        Policy.of(prefer=[text])


def test_policy_from_the_environment() -> None:
    policy = Policy.from_env({"SGL_PLUGINS_ALLOW": "a, b", "SGL_SAFE_MODE": "1", "SGL_PREFER": "attention.x=y"})
    assert policy.allow == ("a", "b")
    assert policy.safe_mode
    assert policy.prefer == {"attention.x": "y"}
    assert not Policy.from_env({"SGL_SAFE_MODE": "0"}).safe_mode
