"""Specs survive JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgl_core.api import AttentionSpec, ModelSpec, Option, PlatformSpec, Spec
from sgl_core.registry import RegistryError
from sgl_core.registry.codec import spec_from_dict, spec_to_dict

WORDS = st.text("abcxyz_-", min_size=1, max_size=8)


@pytest.mark.parametrize(
    "spec",
    [
        Spec(name="a", options=(Option(name="a.x", type=int, default=3, help="h", choices=(1, 3)),)),
        AttentionSpec(name="b", kinds=frozenset({"mla", "mha"}), arch=(80, 90), page_sizes=(1, 16)),
        ModelSpec(name="c", stacked_weights={"qkv_proj": ("q", "k", "v")}),
        PlatformSpec(name="d", rank={"attention": ("x", "y")}, env_names=("A_*",)),
    ],
)
def test_round_trip(spec: Spec) -> None:
    assert spec_from_dict(type(spec), json.loads(json.dumps(spec_to_dict(spec)))) == spec


@given(name=WORDS, flags=st.frozensets(WORDS), aliases=st.lists(WORDS).map(tuple), sinks=st.booleans())
def test_round_trip_of_any_values(name: str, flags: frozenset[str], aliases: tuple[str, ...], sinks: bool) -> None:
    spec = AttentionSpec(name=name, flags=flags, aliases=aliases, sinks=sinks)
    assert spec_from_dict(AttentionSpec, json.loads(json.dumps(spec_to_dict(spec)))) == spec


def test_unknown_fields_are_named() -> None:
    with pytest.raises(RegistryError, match=r"ModelSpec has no field speed"):
        spec_from_dict(ModelSpec, {"name": "x", "speed": 3})
