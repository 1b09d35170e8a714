import pytest

from sgl_core.api.grammar import GrammarError
from sgl_core.engine.assembly import load_built_in
from sgl_core.engine.specs import BUILT_IN
from sgl_core.registry import Registries
from sgl_core.registry.platform import select_platform


@pytest.fixture(scope="module")
def registries():
    return Registries.discover()


@pytest.mark.parametrize("registry", sorted(BUILT_IN))
def test_our_entries_use_the_same_door_as_everybodys(registries, registry):
    for name, spec in BUILT_IN[registry].items():
        assert registries[registry].spec(name) == spec
        if spec.available:
            assert registries[registry].load(name) is load_built_in(registry, name)


def test_a_name_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(ValueError, match=r"no 'lru2' here; there are lru, lfu, slru, priority, fifo"):
        load_built_in("eviction_policies", "lru2")
    with pytest.raises(ValueError, match="routing-key"):
        load_built_in("schedule_policies", "routing-key")


def test_the_null_platform_answers_only_when_asked(registries):
    choice = select_platform(registries, "null", {})
    assert (choice.facts.platform, choice.spec.name) == ("null", "null")


def test_no_grammar_is_a_choice_that_refuses(registries):
    with pytest.raises(GrammarError, match="--grammar-backend none"):
        registries.grammars.load("none")(None)
