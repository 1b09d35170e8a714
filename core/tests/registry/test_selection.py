"""Selection: the user's wish, else the platform's ranking, and the reasons given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sgl_core.api import AttentionSpec, ChoiceSpec, Facts, GrammarSpec, ModelInfo, ModelSpec, PlatformSpec
from sgl_core.config.config import Config
from sgl_core.registry import Registries, RegistryError, Unavailable, UnknownName
from sgl_core.registry.selection import NO_MODEL, select

FACTS = Facts(platform="gpu", arch=90)
MODEL = ModelInfo(architecture="LlamaForCausalLM")
# The json module stands for a target that exists and is light.
TARGET = "json:dumps"


def machine() -> Registries:
    registries = Registries()
    rank = {"attention": ("fast", "absent", "paged", "plain"), "samplers": ("pytorch",)}
    registries.platforms.add(PlatformSpec(name="gpu", target=TARGET, rank=rank))
    registries.platforms.add(PlatformSpec(name="null", target=TARGET, flags=frozenset({NO_MODEL})))
    registries.models.add(ModelSpec(name="LlamaForCausalLM", target=TARGET))
    registries.attention.add(AttentionSpec(name="fast", target=TARGET, arch=(100, 120)))
    registries.attention.add(AttentionSpec(name="paged", target=TARGET, page_sizes=(64,)))
    registries.attention.add(AttentionSpec(name="plain", target=TARGET, sliding_window=True))
    registries.attention.add(AttentionSpec(name="vendor", target=TARGET), dist="vendor", version="3")
    registries.samplers.add(ChoiceSpec(name="pytorch", target=TARGET))
    registries.eviction_policies.add(ChoiceSpec(name="lru", target=TARGET))
    registries.schedule_policies.add(ChoiceSpec(name="fcfs", target=TARGET))
    return registries


def config(**values: object) -> Config:
    return Config({"page_size": 1, "sampling_backend": None, "load_format": "auto", **values})


def test_the_first_ranked_entry_that_can_serve_is_chosen_with_reasons() -> None:
    chosen = select(machine(), config(), FACTS, MODEL)["attention"]
    assert chosen["name"] == "plain"
    assert "fast: needs arch 100 to 120, not 90" in chosen["because"]
    assert "paged: has page sizes 64, not 1" in chosen["because"]
    assert select(machine(), config(page_size=64), FACTS, MODEL)["attention"]["name"] == "paged"
    assert select(machine(), config(), replace(FACTS, arch=100), MODEL)["attention"]["name"] == "fast"


def test_installing_a_package_does_not_change_the_choice() -> None:
    assert all(chosen["dist"] != "vendor" for chosen in select(machine(), config(), FACTS, MODEL).values())


def test_what_was_asked_for_is_taken_with_its_owner() -> None:
    chosen = select(machine(), config(attention_backend="vendor"), FACTS, MODEL, lambda field: True)["attention"]
    assert (chosen["dist"], chosen["version"], chosen["target"]) == ("vendor", "3", TARGET)
    assert chosen["because"] == "asked for"


def test_what_was_asked_for_and_cannot_serve_stops() -> None:
    with pytest.raises(Unavailable, match=r"attention_backend 'fast' cannot serve here: needs arch 100 to 120, not 90"):
        select(machine(), config(attention_backend="fast"), FACTS, MODEL, lambda field: True)
    with pytest.raises(UnknownName, match=r"did you mean plain"):
        select(machine(), config(attention_backend="plane"), FACTS, MODEL, lambda field: True)


def test_what_a_rule_proposed_gives_way_and_says_so() -> None:
    chosen = select(machine(), config(attention_backend="absent"), FACTS, MODEL, lambda field: False)["attention"]
    assert chosen["name"] == "plain"
    assert "absent: attention has no 'absent'" in chosen["because"]


def test_nothing_that_can_serve_stops_with_every_reason() -> None:
    model = replace(MODEL, attention_kind="mla")
    with pytest.raises(Unavailable) as caught:
        select(machine(), config(), FACTS, model)
    text = str(caught.value)
    assert "nothing installed can serve as attention on gpu" in text
    assert "plain: has kinds mha, not mla" in text
    assert "not installed: absent" in text
    assert "choose with --attention-backend: vendor" in text


def test_the_model_needs_an_entry() -> None:
    with pytest.raises(UnknownName, match=r"models has no 'LamaForCausalLM'; did you mean LlamaForCausalLM"):
        select(machine(), config(), FACTS, replace(MODEL, architecture="LamaForCausalLM"))


def test_sliding_windows_need_a_backend_that_has_them() -> None:
    chosen = select(machine(), config(page_size=64), FACTS, replace(MODEL, sliding_window=128))["attention"]
    assert chosen["name"] == "plain"


def test_a_grammar_backend_that_nobody_installed_stops_only_when_asked_for() -> None:
    wanting = config(grammar_backend="xgrammar")
    assert "grammars" not in select(machine(), wanting, FACTS, MODEL, lambda field: False)
    with pytest.raises(RegistryError, match=r"grammars has no 'xgrammar'"):
        select(machine(), wanting, FACTS, MODEL, lambda field: field == "grammar_backend")
    assert "grammars" not in select(machine(), config(grammar_backend="none"), FACTS, MODEL, lambda field: True)
    registries = machine()
    registries.grammars.add(GrammarSpec(name="xgrammar", target=TARGET))
    assert select(registries, wanting, FACTS, MODEL)["grammars"]["name"] == "xgrammar"


def test_a_platform_without_a_model_needs_no_backend() -> None:
    selection = select(machine(), config(), Facts(platform="null"), ModelInfo(architecture="Nothing"))
    assert set(selection) == {"platforms", "eviction_policies", "schedule_policies"}
