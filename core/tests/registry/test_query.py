"""Queries over specs."""

from __future__ import annotations

import pytest

from sgl_core.api import AttentionSpec, Spec
from sgl_core.registry import Registries, why_not

FLASH = AttentionSpec(
    name="flash",
    platforms=("cuda",),
    arch=(80, 90),
    kinds=frozenset({"mha", "mla"}),
    page_sizes=(16, 64),
    flags=frozenset({"deterministic"}),
    sliding_window=True,
)
ANY = AttentionSpec(name="any")


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        ({"flag": "deterministic"}, ""),
        ({"flag": "draft"}, "is not draft"),
        ({"platform": "cuda"}, ""),
        ({"platform": "rocm"}, "runs on cuda, not on rocm"),
        ({"arch": 90}, ""),
        ({"arch": 100}, "needs arch 80 to 90, not 100"),
        ({"kinds": "mla"}, ""),
        ({"kinds": {"mha", "dsa"}}, "has kinds mha, mla, not dsa"),
        ({"page_sizes": 64}, ""),
        ({"page_sizes": 1}, "has page sizes 16, 64, not 1"),
        ({"sliding_window": True}, ""),
        ({"sinks": True}, "does not support sinks"),
        ({"sinks": None}, ""),
        ({"predicate": lambda spec: spec.name == "flash"}, ""),
        ({"predicate": lambda spec: "is too new"}, "is too new"),
        ({"predicate": lambda spec: False}, "does not meet the condition"),
        ({"warp": 1}, "does not state warp"),
    ],
)
def test_reasons(needs: dict, reason: str) -> None:
    assert why_not(FLASH, **needs) == reason


def test_empty_platforms_and_page_sizes_mean_any() -> None:
    assert why_not(ANY, platform="npu", page_sizes=128, arch=75) == ""


def test_unavailable_specs_say_why() -> None:
    assert why_not(Spec(name="x", available=False, unavailable_because="not yet")) == "not yet"


def test_query_gives_specs_and_reasons() -> None:
    registries = Registries()
    for spec in (FLASH, ANY):
        registries.attention.add(spec)
    answer = registries.attention.query(platform="cpu", kinds="mha")
    assert answer.names == ("any",)
    assert answer.rejected == {"flash": "runs on cuda, not on cpu"}


def test_having_counts_choices_that_are_legal_but_not_served() -> None:
    registries = Registries()
    registries.attention.add(AttentionSpec(name="later", available=False, flags=frozenset({"deterministic"})))
    registries.attention.add(FLASH)
    assert registries.attention.having(flag="deterministic") == ("flash", "later")
    assert registries.attention.query(flag="deterministic").names == ("flash",)
