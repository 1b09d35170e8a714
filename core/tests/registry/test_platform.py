"""Choosing the platform: the order of probing, failures that stop, and what --device changes. Field case 187."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from sgl_core.registry import DuplicateNames, Registries, UnknownName
from sgl_core.registry.platform import PlatformError, select_platform
from sgl_core.testing.fake_dists import fake_dist

pytestmark = pytest.mark.field_case("187")

MODULE = dedent("""
    from sgl_core.api import Facts, PlatformSpec
    def spec(name, order, **more):
        return PlatformSpec(name=name, target=f"{__name__}:runtime", probe=f"{__name__}:probe_{name}", probe_order=order, **more)
    CPU = spec("cpu", 99)
    GPU = spec("gpu", 50, env_names=("GPU_*",), aliases=("nvidia",))
    ROCM = spec("rocm", 60, flags=frozenset({"device:cuda"}))
    BAD = spec("bad", 70)
    NULL = spec("null", 0)
    NEEDY = spec("needy", 80, requires=("not-there",))
    WRONG = spec("wrong", 10)
    def runtime(plan): return ("runtime", plan)
    def probe_cpu(): return Facts(platform="cpu")
    def probe_gpu(): return Facts(platform="gpu", device_count=2)
    def probe_rocm(): return None
    def probe_null(): return Facts(platform="null")
    def probe_wrong(): return {"platform": "wrong"}
    def probe_bad():
        import a_driver_that_is_not_there
""")


def machine(site: Path, *names: str, **more: str) -> Registries:
    entries = {name: f"fake_platforms:{name.upper()}" for name in names} | more
    fake_dist(site, "sgl-test-platforms", "1.0", {"platforms": entries}, {"fake_platforms.py": MODULE})
    return Registries.discover(path=[str(site)])


def test_the_highest_order_that_finds_its_device_wins(site: Path) -> None:
    choice = select_platform(machine(site, "cpu", "gpu", "rocm"))
    assert choice.spec.name == "gpu"
    assert choice.facts.device_count == 2
    assert choice.dist.name == "sgl-test-platforms"
    assert choice.notes == ("rocm (sgl-test-platforms 1.0): found no device",)


def test_cpu_comes_last_whatever_its_order(site: Path) -> None:
    assert select_platform(machine(site, "cpu", "rocm")).facts.platform == "cpu"


def test_null_is_chosen_only_when_asked_for(site: Path) -> None:
    registries = machine(site, "null", "rocm")
    with pytest.raises(PlatformError, match=r"found a device it can use: rocm"):
        select_platform(registries)
    assert select_platform(registries, "null").facts.platform == "null"


def test_a_probe_that_raises_stops_with_plugin_and_traceback(site: Path) -> None:
    registries = machine(site, "cpu", "bad")
    with pytest.raises(PlatformError) as caught:
        select_platform(registries)
    text = str(caught.value)
    for word in ("'bad'", "sgl-test-platforms 1.0", "ModuleNotFoundError", "a_driver_that_is_not_there", "--device"):
        assert word in text
    assert "probe_bad" in text
    assert select_platform(registries, "cpu").facts.platform == "cpu"


def test_the_asked_for_platform_that_fails_stops_too(site: Path) -> None:
    with pytest.raises(PlatformError, match=r"a_driver_that_is_not_there"):
        select_platform(machine(site, "cpu", "bad"), "bad")


def test_a_stale_plugin_stops_instead_of_giving_cpu(site: Path) -> None:
    with pytest.raises(PlatformError, match=r"no module 'gone'"):
        select_platform(machine(site, "cpu", stale="gone.specs:SPEC"))
    registries = machine(site, "cpu", stale="gone.specs:SPEC")
    assert select_platform(registries, "cpu").facts.platform == "cpu"


def test_a_missing_requirement_stops_and_says_what_to_install(site: Path) -> None:
    with pytest.raises(PlatformError, match=r"not-there is not installed; pip install not-there"):
        select_platform(machine(site, "cpu", "needy"))


def test_a_probe_must_answer_facts(site: Path) -> None:
    with pytest.raises(PlatformError, match=r"returned dict, not Facts"):
        select_platform(machine(site, "wrong"))


def test_device_by_name_alias_index_and_device_word(site: Path) -> None:
    registries = machine(site, "cpu", "gpu", "rocm")
    for word in ("gpu", "nvidia", "gpu:1"):
        assert select_platform(registries, word).spec.name == "gpu"
    with pytest.raises(PlatformError, match=r"--device cuda: rocm .* found no such device"):
        select_platform(registries, "cuda")
    with pytest.raises(UnknownName, match=r"did you mean gpu"):
        select_platform(registries, "gpuu")


def test_without_any_platform_the_message_says_what_to_install() -> None:
    with pytest.raises(PlatformError, match=r"install sgl-cpu"):
        select_platform(Registries())


def test_two_owners_of_a_platform_stop(site: Path) -> None:
    fake_dist(site, "rival", "1.0", {"platforms": {"gpu": "fake_platforms:GPU"}})
    with pytest.raises(DuplicateNames, match=r"rival 1.0 and sgl-test-platforms 1.0"):
        select_platform(machine(site, "cpu", "gpu"))


def test_environment_facts_leave_secrets_out(site: Path) -> None:
    env = {"GPU_X": "1", "SGL_API_KEY": "s", "SGL_HF_TOKEN": "s", "SGL_A": "2", "SGLANG_B": "3", "HOME": "/root"}
    facts = select_platform(machine(site, "gpu"), env=env).facts
    assert facts.env == {"GPU_X": "1", "SGL_A": "2", "SGLANG_B": "3"}
