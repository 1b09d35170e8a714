"""Settings of plugins: defaults of what is chosen, checked values, and refusal of what nothing acts on."""

from __future__ import annotations

from typing import Any

import pytest

from sgl_core.api import AttentionSpec, OpSpec, Option
from sgl_core.registry import Registries, RegistryError
from sgl_core.registry.options import plugin_options
from sgl_core.registry.selection import Selected

OPTIONS = (
    Option(name="fast.block", type=int, default=64),
    Option(name="fast.exact", type=bool, default=False),
    Option(name="fast.mode", choices=("a", "b"), default="a"),
)


def chosen(name: str) -> dict[str, Selected]:
    return {"attention": Selected(registry="attention", name=name, target="", dist="x", version="1", because="")}


@pytest.fixture
def registries() -> Registries:
    registries = Registries()
    registries.attention.add(AttentionSpec(name="fast", options=OPTIONS))
    registries.attention.add(AttentionSpec(name="other"))
    registries.ops.add(OpSpec(name="op", options=(Option(name="op.tile", type=int, default=1),)))
    return registries


def test_defaults_of_what_is_chosen(registries: Registries) -> None:
    assert plugin_options(registries, None, chosen("fast")) == {
        "fast.block": 64,
        "fast.exact": False,
        "fast.mode": "a",
    }
    assert plugin_options(registries, [], chosen("other")) == {}


@pytest.mark.parametrize("given", [["fast.block=8", "fast.exact=yes"], {"fast.block": 8, "fast.exact": True}])
def test_given_values_take_their_type(registries: Registries, given: Any) -> None:
    values = plugin_options(registries, given, chosen("fast"))
    assert values["fast.block"] == 8
    assert values["fast.exact"] is True


def test_entries_that_are_not_chosen_but_used_keep_their_options(registries: Registries) -> None:
    assert plugin_options(registries, ["op.tile=4"], chosen("other")) == {"op.tile": 4}


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("fast", "fast.blok=8", "did you mean fast.block"),
        ("fast", "fast.block=big", "takes int, not 'big'"),
        ("fast", "fast.exact=perhaps", "takes bool, not 'perhaps'"),
        ("fast", "fast.mode=c", "takes one of a, b, not 'c'"),
        ("fast", "fast.block", "ENTRY.OPTION=VALUE"),
        ("other", "fast.block=8", "would have no effect: other is chosen in attention, not fast"),
    ],
)
def test_wrong_options_are_refused(registries: Registries, name: str, given: str, words: str) -> None:
    with pytest.raises(RegistryError, match=words):
        plugin_options(registries, [given], chosen(name))
