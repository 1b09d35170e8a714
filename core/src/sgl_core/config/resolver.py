"""The resolver: runs the rules stage by stage over the operator's wishes and keeps a ledger of every decision.

Who wins: a forced value over an explicit one, an explicit one over a suggested one; among suggestions, and among forced values,
the last. A rule sees the configuration as it stood when the rule began; its own declarations take effect when it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Force, Require, Rule, SetEnv, Suggest

from .choices import registry_of
from .config import Config
from .errors import ConfigError, RuleError, did_you_mean
from .fields import fields
from .ledger import Entry, Ledger, shown
from .rule_order import RegisteredRule, ordered
from .server_args import ServerArgs


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """What came out: the configuration, every decision, the environment for the workers, warnings for the operator."""

    args: ServerArgs
    config: Config
    ledger: Ledger
    env: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    def changed(self) -> dict[str, Any]:
        """The fields whose final value is not what the user passed or, where unset, the default."""
        return {name: self.config.get(name) for name in fields() if self.config.get(name) != self.args.get(name)}


@dataclass(slots=True)
class State:
    """A resolution under way."""

    args: ServerArgs
    registries: Any
    values: dict[str, Any] = field(default_factory=dict)
    forced: set[str] = field(default_factory=set)
    entries: list[Entry] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


class ConfigView:
    """What a rule sees (:class:`sgl_core.api.rules.View`). Read only."""

    __slots__ = ("_reads", "_state")

    def __init__(self, state: State, reads: set[str] | None = None) -> None:
        self._state = state
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        if self._reads is not None:
            self._reads.add(name)
        values = self._state.values
        if name in values:
            return values[name]
        try:
            return self._state.args.get(name)
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def explicit(self, name: str) -> bool:
        """Whether the user set the field."""
        return self._state.args.explicit(name)

    def given(self, name: str) -> Any:
        """What the user asked for; the default where unset."""
        return self._state.args.get(name)

    def choices(self, registry: str) -> Any:
        """The registry's specs, or an empty registry where this installation has none of that name."""
        found = registry_of(self._state.registries, registry)
        return NoChoices(registry) if found is None else found


@dataclass(frozen=True, slots=True)
class NoChoices:
    """A registry without entries."""

    registry: str

    def names(self) -> tuple[str, ...]:
        return ()

    def having(self, **wanted: Any) -> tuple[str, ...]:
        return ()

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __contains__(self, name: object) -> bool:
        return False

    def spec(self, name: str) -> Any:
        raise KeyError(f"no installed package offers {self.registry} {name!r}")


def resolve(
    args: ServerArgs,
    facts: Facts,
    model: ModelInfo,
    registries: Any = None,
    rules: Iterable[RegisteredRule | Rule] | None = None,
    *,
    audit: bool = False,
) -> Resolution:
    """Resolve a configuration. Pure: the same inputs give the same ledger.

    ``rules`` replaces those of the ``rules`` registry. ``audit`` also holds every rule to the reads that it announced. Raises
    :class:`ConfigError` where a rule refuses (its ``ledger`` attribute holds the decisions up to there) and :class:`RuleError` where a
    rule is itself wrong.
    """
    state = State(args, registries, warnings=list(args.warnings))
    found = registered(rules) if rules is not None else rules_of(registries, model.architecture)
    for member in ordered(r for r in found if r.applies(model.architecture, facts.platform)):
        run_rule(member, state, facts, model, audit=audit)
    given = {name: args.get(name) for name in args}
    return Resolution(
        args=args,
        config=Config({**given, **state.values}),
        ledger=Ledger(state.entries),
        env=dict(state.env),
        warnings=tuple(dict.fromkeys(state.warnings)),
    )


def registered(rules: Iterable[RegisteredRule | Rule]) -> list[RegisteredRule]:
    """Rules with their origin; bare ones have none."""
    return [rule if isinstance(rule, RegisteredRule) else RegisteredRule(rule) for rule in rules]


def rules_of(registries: Any, architecture: str | None = None) -> list[RegisteredRule]:
    """The rules of every installed rule set; with an architecture, only of the sets that are for it."""
    registry = registry_of(registries, "rules")
    found: list[RegisteredRule] = []
    if registry is None:
        return found
    for name in registry.names():
        spec = registry.spec(name)
        only = tuple(getattr(spec, "architectures", ()))
        if architecture is not None and only and architecture not in only:
            continue
        owner = registry.owner(name)
        found += [RegisteredRule(rule, owner.name, owner.version, name, only) for rule in registry.load(name)]
    return found


def run_rule(member: RegisteredRule, state: State, facts: Facts, model: ModelInfo, *, audit: bool) -> None:
    """Run one rule and enter what it declares."""
    rule = member.rule
    reads: set[str] | None = set() if audit else None
    pending: list[Suggest | Force | SetEnv] = []
    try:
        for declaration in rule.function(ConfigView(state, reads), facts, model):
            if isinstance(declaration, Require):
                if not declaration.condition:
                    raise refusal(member, declaration, state)
            else:
                pending.append(declaration)
    except ConfigError:
        raise
    except Exception as error:
        raise RuleError(f"{describe(member)} failed: {type(error).__name__}: {error}") from error
    if reads is not None and (unannounced := sorted(reads - {*rule.reads, *rule.writes})):
        raise RuleError(f"{describe(member)} reads {', '.join(unannounced)} without announcing it in reads=")
    for declaration in pending:
        enter(member, declaration, state)


def enter(member: RegisteredRule, declaration: Suggest | Force | SetEnv, state: State) -> None:
    """Enter one declaration in the ledger and, where it wins, in the values."""
    if isinstance(declaration, SetEnv):
        before = state.env.get(declaration.name)
        state.env[declaration.name] = declaration.value
        state.entries.append(entry(member, declaration.name, declaration.value, "set_env", declaration.because, before))
        return
    name = declaration.field
    if name not in member.rule.writes:
        near = "" if name in fields() else did_you_mean(name, fields())
        raise RuleError(f"{describe(member)} declares {name} without announcing it in writes=.{near}")
    if name not in fields():
        raise RuleError(
            f"{describe(member)} declares {name}, which is no configuration field.{did_you_mean(name, fields())}"
        )
    explicit = state.args.explicit(name)
    before = state.values[name] if name in state.values else state.args.get(name)
    if isinstance(declaration, Suggest):
        applied = not explicit and name not in state.forced
        state.entries.append(entry(member, name, declaration.value, "suggest", declaration.because, before, applied))
        if applied:
            state.values[name] = declaration.value
        return
    overrode = explicit and name not in state.forced and declaration.value != state.args.get(name)
    if overrode:
        given = shown(fields()[name], state.args.get(name))
        state.warnings.append(
            f"{name} = {given} was asked for, {shown(fields()[name], declaration.value)} is used: {declaration.because}"
        )
    state.entries.append(
        entry(member, name, declaration.value, "force", declaration.because, before, overrode_user=overrode)
    )
    state.forced.add(name)
    state.values[name] = declaration.value


def entry(
    member: RegisteredRule,
    name: str,
    value: Any,
    verb: str,
    because: str,
    replaced: Any,
    applied: bool = True,
    overrode_user: bool = False,
) -> Entry:
    """A ledger line of this rule."""
    return Entry(
        field=name,
        value=value,
        verb=verb,
        rule=member.rule.name,
        stage=member.rule.stage,
        dist=member.dist,
        version=member.version,
        place=member.place,
        because=because,
        replaced=replaced,
        applied=applied,
        overrode_user=overrode_user,
    )


class Refused(ConfigError):
    """A rule's refusal, with the decisions up to it."""

    ledger: Ledger


def refusal(member: RegisteredRule, declaration: Require, state: State) -> ConfigError:
    """The error of a failed requirement: what the user wrote for the fields concerned, and why it cannot be."""
    written = wishes(declaration.fields, state)
    error = Refused(
        declaration.because + (f" ({written})" if written else ""),
        fields=declaration.fields,
        fix=declaration.fix,
        kind=declaration.kind,
        rule=member.rule.name,
        where=f"{member.dist} {member.version}, {member.place}".lstrip(" ,") if member.dist else member.place,
    )
    error.ledger = Ledger(state.entries)
    return error


def wishes(names: Sequence[str], state: State) -> str:
    """``page_size = 16 from --page-size, ...``: the values of fields and who gave them."""
    parts = []
    for name in names:
        if name not in fields():
            continue
        value = state.values.get(name, state.args.get(name))
        setting = state.args.setting(name)
        origin = f" from {setting.spelled}" if setting is not None and setting.spelled != name else ""
        parts.append(f"{name} = {shown(fields()[name], value)}{origin}")
    return ", ".join(parts)


def describe(member: RegisteredRule) -> str:
    """A rule as an error names it."""
    origin = f"{member.dist} {member.version}, " if member.dist else ""
    return f"rule {member.rule.name} ({origin}{member.place})"
