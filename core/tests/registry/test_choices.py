"""The extension lists of the reference system and their adders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sgl_core.registry import DuplicateNames, Registries, RegistryError, choices
from sgl_core.registry.choices import CHOICE_LISTS, add_choices

ORACLE = Path(__file__).parents[2] / "tests" / "data" / "choice_lists.json"


def test_every_list_of_the_reference_has_its_registry_and_adder() -> None:
    expected = json.loads(ORACLE.read_text())
    assert len(expected) == 17
    assert {name: known.adder or None for name, known in CHOICE_LISTS.items()} == expected
    for known in CHOICE_LISTS.values():
        assert known.registry in Registries()
        if known.adder:
            assert callable(getattr(choices, known.adder))


@pytest.mark.parametrize("name", [name for name, known in CHOICE_LISTS.items() if known.adder])
def test_each_adder_makes_legal_values(name: str) -> None:
    registries = Registries()
    known = CHOICE_LISTS[name]
    getattr(choices, known.adder)(registries, ["vendor_x"], dist="vendor")
    registry = registries[known.registry]
    assert registry.owner("vendor_x").name == "vendor"
    if known.flag:
        assert registry.having(flag=known.flag) == ("vendor_x",)


def test_a_flag_list_marks_an_entry_that_exists() -> None:
    registries = Registries()
    choices.add_attention_backend_choices(registries, ["vendor_x"])
    choices.add_chunked_prefix_cache_attention_backend(registries, "vendor_x")
    assert registries.attention.having(flag="chunked_prefix") == ("vendor_x",)


def test_taken_and_malformed_names_are_refused() -> None:
    registries = Registries()
    add_choices(registries, "attention", ["a"])
    with pytest.raises(DuplicateNames):
        add_choices(registries, "attention", ["a"])
    with pytest.raises(RegistryError, match=r"no spaces"):
        add_choices(registries, "attention", ["a b"])
