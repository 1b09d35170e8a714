"""The resolver: who wins, what the ledger says, refusals, wrong rules, purity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_core.api import Facts, ModelInfo, Rule, force, require, rule, set_env, suggest
from sgl_core.api.rules import STAGES, Declaration
from sgl_core.api.specs import RuleSetSpec
from sgl_core.config import ConfigError, Resolution, RuleError, ServerArgs, resolve
from sgl_core.registry import Registries

FACTS = Facts(platform="cuda", device="cuda", arch=90)
MODEL = ModelInfo(architecture="LlamaForCausalLM")


def run(*rules: Rule, **given_values: Any) -> Resolution:
    return resolve(ServerArgs.of(**given_values), FACTS, MODEL, rules=rules)


@rule(stage="attention", reads=("attention_backend",), writes=("attention_backend",))
def suggest_triton(view: Any, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Suggest triton."""
    yield suggest("attention_backend", "triton", because="it is there")


@rule(stage="features", writes=("attention_backend",))
def suggest_flashinfer(view: Any, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    yield suggest("attention_backend", "flashinfer", because="it is faster")


@rule(stage="moe", writes=("attention_backend", "page_size"))
def force_fa3(view: Any, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    yield force("attention_backend", "fa3", because="nothing else works")


def test_a_suggestion_fills_what_is_unset() -> None:
    result = run(suggest_triton)
    assert result.config.exec.kernel.attention_backend == "triton"
    (entry,) = result.ledger
    assert (entry.field, entry.value, entry.verb, entry.replaced, entry.applied) == (
        "attention_backend",
        "triton",
        "suggest",
        None,
        True,
    )
    assert (entry.rule, entry.stage, entry.because) == ("suggest_triton", "attention", "it is there")
    assert entry.place.startswith("config/test_resolver.py:")


def test_a_later_suggestion_replaces_an_earlier_one() -> None:
    result = run(suggest_flashinfer, suggest_triton)
    assert result.config.get("attention_backend") == "flashinfer"
    assert [entry.replaced for entry in result.ledger] == [None, "triton"]


def test_an_explicit_value_outweighs_suggestions_even_the_default() -> None:
    result = run(suggest_triton, attention_backend="torch_native")
    assert result.config.get("attention_backend") == "torch_native"
    assert [entry.applied for entry in result.ledger] == [False]
    assert run(suggest_triton, attention_backend=None).config.get("attention_backend") is None
    assert result.warnings == ()


def test_a_forced_value_outweighs_all_and_warns_once() -> None:
    result = run(suggest_triton, force_fa3, suggest_flashinfer, attention_backend="torch_native")
    assert result.config.get("attention_backend") == "fa3"
    assert result.warnings == ("attention_backend = 'torch_native' was asked for, 'fa3' is used: nothing else works",)
    assert [entry.overrode_user for entry in result.ledger] == [False, True, False]
    assert run(suggest_triton, force_fa3, suggest_flashinfer).config.get("attention_backend") == "fa3"


def test_forcing_what_was_asked_for_does_not_warn() -> None:
    assert run(force_fa3, attention_backend="fa3").warnings == ()


def test_changed_lists_what_is_not_as_given() -> None:
    result = run(force_fa3, page_size=16, attention_backend="triton")
    assert result.changed() == {"attention_backend": "fa3"}


def test_a_rule_sees_earlier_declarations_and_the_users_wish() -> None:
    seen: list[Any] = []

    @rule(stage="checks", reads=("attention_backend", "page_size"))
    def look(view: Any, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
        seen.append((view.attention_backend, view.given("attention_backend"), view.explicit("attention_backend")))
        seen.append((view.page_size, view.explicit("page_size")))
        with pytest.raises(AttributeError, match="page_size"):
            view.page_sizes  # noqa: B018
        yield from ()

    run(look, force_fa3, attention_backend="triton", page_size=8)
    assert seen == [("fa3", "triton", True), (8, True)]


def test_a_rule_does_not_see_its_own_declarations() -> None:
    seen: list[Any] = []

    @rule(stage="memory", writes=("page_size",))
    def twice(view: Any, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
        yield suggest("page_size", 4, because="first")
        seen.append(view.page_size)

    assert run(twice).config.get("page_size") == 4
    assert seen == [None]


def test_environment_for_the_workers() -> None:
    @rule(stage="memory")
    def env(view: Any, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
        yield set_env("NCCL_NVLS", "1", because="fast")

    result = run(env)
    assert result.env == {"NCCL_NVLS": "1"}
    assert next(iter(result.ledger)).verb == "set_env"


@rule(stage="checks", reads=("page_size",))
def page_size_of_four(view: Any, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    yield require(
        view.page_size != 4,
        "pages of 4 tokens do not fit",
        fix="use 16",
        fields=("page_size",),
        kind="AssertionError",
    )
    raise AssertionError("a rule does not go on after a failed requirement")


def test_a_requirement_refuses() -> None:
    args = ServerArgs.from_sources(cli=["--page-size", "4"])
    with pytest.raises(ConfigError) as refusal:
        resolve(args, FACTS, MODEL, rules=[suggest_triton, page_size_of_four])
    error = refusal.value
    assert (error.fields, error.kind, error.rule, error.fix) == (
        ("page_size",),
        "AssertionError",
        "page_size_of_four",
        "use 16",
    )
    assert "page_size = 4 from --page-size" in str(error)
    assert "test_resolver.py" in str(error)
    assert len(error.ledger) == 1  # type: ignore[attr-defined]


def test_a_rule_that_raises_is_named() -> None:
    with pytest.raises(RuleError, match=r"rule page_size_of_four .* failed: AssertionError"):
        run(page_size_of_four, page_size=16)


def test_a_rule_must_announce_what_it_writes() -> None:
    @rule(stage="memory", writes=("page_sise",))
    def typo(view: Any, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
        yield suggest("page_sise", 1, because="")

    @rule(stage="memory")
    def silent(view: Any, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
        yield suggest("page_size", 1, because="")

    with pytest.raises(RuleError, match=r"no configuration field.*Did you mean 'page_size'"):
        run(typo)
    with pytest.raises(RuleError, match="without announcing it in writes"):
        run(silent)


def test_audit_holds_rules_to_their_reads() -> None:
    @rule(stage="memory")
    def peek(view: Any, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
        yield require(view.page_size is None, "unset")

    assert run(peek)
    with pytest.raises(RuleError, match="reads page_size without announcing"):
        resolve(ServerArgs.of(), FACTS, MODEL, rules=[peek], audit=True)


@pytest.mark.parametrize(
    ("limits", "acts"),
    [
        ({}, True),
        ({"architectures": ("LlamaForCausalLM",)}, True),
        ({"architectures": ("OtherForCausalLM",)}, False),
        ({"applies": lambda name: name.startswith("Llama")}, True),
        ({"applies": lambda name: False}, False),
        ({"architectures": ("OtherForCausalLM",), "applies": lambda name: True}, True),
        ({"platforms": ("cuda",)}, True),
        ({"platforms": ("cpu", "rocm")}, False),
    ],
)
def test_which_models_and_machines_a_rule_is_for(limits: dict[str, Any], acts: bool) -> None:
    @rule(stage="memory", writes=("page_size",), **limits)
    def act(view: Any, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
        yield suggest("page_size", 4, because="acting")

    assert (run(act).config.get("page_size") == 4) == acts


def test_a_vendors_rule_and_choice_take_part(vendor_registries: Registries, monkeypatch: pytest.MonkeyPatch) -> None:
    @rule(stage="attention", reads=("attention_backend",), writes=("attention_backend",))
    def prefer_ours(view: Any, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
        if "my_plugin_backend" in view.choices("attention").names():
            yield suggest("attention_backend", "my_plugin_backend", because="our kernels are installed")

    vendor_registries.add("rules", RuleSetSpec(name="vendor", target="json:loads"), "vendor-dist", "1.2.3")
    vendor_registries.add(
        "rules", RuleSetSpec(name="other_model", target="json:loads", architectures=("X",)), "vendor-dist", "1.2.3"
    )
    loaded: list[str] = []

    def load(name: str) -> list[Rule]:
        loaded.append(name)
        return [prefer_ours]

    monkeypatch.setattr(vendor_registries.rules, "load", load)
    result = resolve(ServerArgs.of(), FACTS, MODEL, vendor_registries)
    assert loaded == ["vendor"]
    assert result.config.get("attention_backend") == "my_plugin_backend"
    (entry,) = result.ledger
    assert (entry.dist, entry.version) == ("vendor-dist", "1.2.3")


def test_without_registries_choices_are_empty() -> None:
    @rule(stage="memory", writes=("page_size",))
    def ask(view: Any, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
        offered = view.choices("attention")
        assert (list(offered), offered.names(), offered.having(flag="draft")) == ([], (), ())
        assert "x" not in offered
        with pytest.raises(KeyError):
            offered.spec("x")
        yield suggest("page_size", 1, because="nothing offered")

    assert run(ask).config.get("page_size") == 1


FIELDS = ("page_size", "tp_size", "dp_size", "ep_size", "max_running_requests")


def made_rule(number: int, stage: str, reads: list[str], writes: list[str], forces: bool) -> Rule:
    """A rule whose values depend on what it sees, so that a change of order would show."""

    def function(view: Any, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
        total = sum(getattr(view, name) or 0 for name in reads)
        for name in writes:
            verb = force if forces else suggest
            yield verb(name, total * 3 + number, because=f"rule {number}")

    return Rule(name=f"rule_{number:03}", function=function, stage=stage, reads=tuple(reads), writes=tuple(writes))


RULES = st.lists(
    st.tuples(
        st.sampled_from(STAGES),
        st.lists(st.sampled_from(FIELDS), max_size=3, unique=True),
        st.lists(st.sampled_from(FIELDS), max_size=2, unique=True),
        st.booleans(),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(RULES, st.dictionaries(st.sampled_from(FIELDS), st.integers(1, 9)), st.randoms(use_true_random=False))
def test_resolution_is_pure_and_independent_of_the_order_of_registration(
    drawn: list[tuple[str, list[str], list[str], bool]], values: dict[str, int], random: Any
) -> None:
    rules = [made_rule(number, *parts) for number, parts in enumerate(drawn)]
    shuffled = list(rules)
    random.shuffle(shuffled)
    args = ServerArgs.of(**values)
    first = resolve(args, FACTS, MODEL, rules=rules, audit=True)
    second = resolve(args, FACTS, MODEL, rules=shuffled)
    assert first.ledger == second.ledger
    assert first.config == second.config
    assert first.warnings == second.warnings
    assert args == ServerArgs.of(**values)
    stages = [STAGES.index(entry.stage) for entry in first.ledger]
    assert stages == sorted(stages)
    for name in FIELDS:
        forced = [entry.value for entry in first.ledger.of(name) if entry.verb == "force"]
        suggested = [entry.value for entry in first.ledger.of(name) if entry.applied and entry.verb == "suggest"]
        if forced:
            assert first.config.get(name) == forced[-1]
        elif name in values:
            assert first.config.get(name) == values[name]
        elif suggested:
            assert first.config.get(name) == suggested[-1]


def test_secrets_are_starred_in_ledger_and_warnings() -> None:
    @rule(stage="features", writes=("api_key",))
    def key(view: Any, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
        yield force("api_key", "other", because="policy")

    result = run(key, api_key="hunter2")
    assert "hunter2" not in str(result.warnings)
    assert "hunter2" not in str(result.ledger.to_list())
    assert "other" not in str(result.ledger.to_list())
