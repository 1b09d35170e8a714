"""What `sgl explain` and ``/server_info`` say about a resolution, as plain data: rows, one field's story, differences, JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.registry.policy import FIRST_PARTY

from .errors import ConfigError
from .fields import fields
from .ledger import Entry, Ledger
from .resolver import Resolution, resolve
from .server_args import ServerArgs, masked

LONG = 10
"""Lists longer than this are shown by their ends."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A resolution, or the refusal that ended it."""

    args: ServerArgs
    facts: Facts
    model: ModelInfo
    resolution: Resolution | None
    refusal: ConfigError | None = None

    @property
    def ledger(self) -> Ledger:
        """Every decision, up to the refusal where there is one."""
        if self.resolution is not None:
            return self.resolution.ledger
        return getattr(self.refusal, "ledger", Ledger())


@dataclass(frozen=True, slots=True)
class Row:
    """One field in the overview."""

    field: str
    subject: str
    value: str
    was: str
    who: str
    why: str
    where: str = ""


def try_resolve(args: ServerArgs, facts: Facts, model: ModelInfo, registries: Any, rules: Any = None) -> Outcome:
    """Resolve and keep a refusal instead of raising it."""
    try:
        return Outcome(args, facts, model, resolve(args, facts, model, registries, rules))
    except ConfigError as refusal:
        return Outcome(args, facts, model, None, refusal)


def final_value(outcome: Outcome, name: str) -> Any:
    """The field's value after resolution; where it was refused, as it stood then. Secrets are starred."""
    winner = outcome.ledger.winner(name)
    value = winner.value if winner is not None else outcome.args.get(name)
    return masked(fields()[name], value)


def overview(outcome: Outcome) -> list[Row]:
    """A row for each field that somebody decided, in the order of declaration. Packages other than ours are named.

    Fields that rules keep for themselves (with an underscore) are left out; their story can be asked for.
    """
    rows = []
    for name, declared in fields().items():
        if name.startswith("_"):
            continue
        winner = outcome.ledger.winner(name)
        setting = outcome.args.setting(name)
        if setting is None and (winner is None or winner.value == declared.default):
            continue
        was = masked(declared, outcome.args.get(name))
        if winner is not None:
            changed = winner.value != outcome.args.get(name)
            rows.append(
                Row(
                    name,
                    declared.subject,
                    short(final_value(outcome, name)),
                    short(was) if changed else "",
                    winner.rule if winner.dist in FIRST_PARTY else author(winner),
                    winner.because,
                    winner.place,
                )
            )
        elif setting is not None:
            rows.append(Row(name, declared.subject, short(was), "", f"you: {setting.spelled}", "", setting.source))
    return rows


def story(outcome: Outcome, name: str) -> list[str]:
    """One field from the wish to the outcome, a line each."""
    declared = fields()[name]
    setting = outcome.args.setting(name)
    asked = (
        f"not set; the default is {short(declared.default)}"
        if setting is None
        else f"{short(masked(declared, setting.value))}, set by {setting.spelled} ({setting.source})"
    )
    lines = [f"asked: {asked}"]
    for entry in outcome.ledger.of(name):
        data = entry.to_dict()
        effect = "" if entry.applied else "; kept the value that stands"
        if entry.overrode_user:
            effect = f"; replaces your {short(data['replaced'])}"
        elif entry.applied and entry.replaced not in (None, entry.value) and entry.replaced != declared.default:
            effect = f"; replaces {short(data['replaced'])}"
        lines.append(f"{entry.verb} {short(data['value'])} by {author(entry)} ({entry.place}): {entry.because}{effect}")
    lines.append(f"result: {short(final_value(outcome, name))}")
    return lines


def differences(here: Outcome, there: Outcome) -> list[tuple[str, str, str, str]]:
    """The fields that come out differently on another machine: name, value here, value there, the reason there (or here)."""
    rows = []
    for name in fields():
        one, other = final_value(here, name), final_value(there, name)
        if one == other:
            continue
        winner = there.ledger.winner(name) or here.ledger.winner(name)
        rows.append((name, short(one), short(other), winner.because if winner is not None else ""))
    return rows


def to_json(outcome: Outcome) -> dict[str, Any]:
    """The golden-test form: what changed, every decision, environment, warnings, and the refusal if there is one."""
    refusal = outcome.refusal
    changed = {
        n: final_value(outcome, n)
        for n in fields()
        if final_value(outcome, n) != masked(fields()[n], outcome.args.get(n))
    }
    return {
        "model": outcome.model.architecture,
        "facts": outcome.facts.name or outcome.facts.platform,
        "args": {name: masked(fields()[name], outcome.args.get(name)) for name in sorted(outcome.args)},
        "changed": changed,
        "ledger": outcome.ledger.to_list(),
        "env": dict(outcome.resolution.env) if outcome.resolution is not None else {},
        "warnings": list(outcome.resolution.warnings if outcome.resolution is not None else outcome.args.warnings),
        "refused": None
        if refusal is None
        else {
            "because": refusal.because,
            "fix": refusal.fix,
            "fields": list(refusal.fields),
            "kind": refusal.kind,
            "rule": refusal.rule,
        },
    }


def author(entry: Entry) -> str:
    """Who made a declaration: the rule and its package."""
    return f"{entry.rule} ({entry.dist} {entry.version})" if entry.dist else entry.rule


def short(value: Any) -> str:
    """A value as a table shows it: long lists by their ends, mappings without what is unset in them."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {short(inner)}" for key, inner in value.items() if inner is not None) + "}"
    if isinstance(value, (list, tuple)):
        if len(value) > LONG:
            return f"[{', '.join(map(str, value[:4]))} … {value[-1]}: {len(value)} values]"
        return "[" + ", ".join(short(item) for item in value) + "]"
    if value is None:
        return "unset"
    return str(value).lower() if isinstance(value, bool) else str(value)
