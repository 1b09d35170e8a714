"""The rule verbs: how a plugin declares a configuration decision, with its reason, as a pure function over plain data.

@rule(stage="attention", architectures=("GptOssForCausalLM",), reads=("attention_backend",), writes=("attention_backend",))
def sinks_need_triton(view, facts, model):
    if view.attention_backend is None and facts.platform == "cuda":
        yield suggest("attention_backend", "triton", because="its kernel applies attention sinks")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from .facts import Facts
from .model_info import ModelInfo

STAGES = (
    "sources",
    "platform",
    "model",
    "parallel",
    "attention",
    "moe",
    "memory",
    "speculative",
    "features",
    "checks",
)
"""The order in which rules run."""


class View(Protocol):
    """The configuration as it stands: user values with earlier declarations laid over. Read only, by field name."""

    def __getattr__(self, field: str) -> Any: ...

    def explicit(self, field: str) -> bool:
        """Whether the user set the field (flag, environment or file)."""
        ...

    def given(self, field: str) -> Any:
        """What the user asked for, before any declaration (the default where unset)."""
        ...

    def choices(self, registry: str) -> Any:
        """The registry's specs as a read-only query object (``.spec(name)``, ``.names()``, ``.having(flag=...)``)."""
        ...


@dataclass(frozen=True, slots=True)
class Suggest:
    """Fill a field that the user left unset."""

    field: str
    value: Any
    because: str


@dataclass(frozen=True, slots=True)
class Force:
    """Set a field even against an explicit value; the ledger warns, naming both values, when it replaces one."""

    field: str
    value: Any
    because: str


@dataclass(frozen=True, slots=True)
class Require:
    """Refuse the configuration unless ``condition`` holds. ``kind`` is the error class name the reference raises."""

    condition: bool
    because: str
    fix: str = ""
    fields: tuple[str, ...] = ()
    kind: str = "ValueError"


@dataclass(frozen=True, slots=True)
class SetEnv:
    """Ask that a process environment variable is set in the workers (part of the plan, never done by the rule)."""

    name: str
    value: str
    because: str


Declaration: TypeAlias = Suggest | Force | Require | SetEnv
RuleFunction: TypeAlias = Callable[[View, Facts, ModelInfo], Iterable[Declaration]]
Stage: TypeAlias = Literal[
    "sources", "platform", "model", "parallel", "attention", "moe", "memory", "speculative", "features", "checks"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A registered rule: the function and what the resolver needs to place it."""

    name: str
    function: RuleFunction
    stage: str
    architectures: tuple[str, ...] = ()
    applies: Callable[[str], bool] | None = None
    platforms: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    summary: str = ""


def rule(
    *,
    stage: Stage,
    architectures: tuple[str, ...] = (),
    applies: Callable[[str], bool] | None = None,
    platforms: tuple[str, ...] = (),
    reads: tuple[str, ...] = (),
    writes: tuple[str, ...] = (),
    after: tuple[str, ...] = (),
    before: tuple[str, ...] = (),
) -> Callable[[RuleFunction], Rule]:
    """Mark a generator function as a rule.

    ``architectures`` (exact names) or ``applies`` (a predicate on the name) limit the models, ``platforms`` the
    machines. ``reads`` and ``writes`` name fields and order the rule inside its stage: a rule runs after those that
    write what it reads. ``after``/``before`` name rules where that is not enough.
    """

    def mark(function: RuleFunction) -> Rule:
        return Rule(
            name=getattr(function, "__name__", "rule"),
            function=function,
            stage=stage,
            architectures=architectures,
            applies=applies,
            platforms=platforms,
            reads=reads,
            writes=writes,
            after=after,
            before=before,
            summary=(function.__doc__ or "").strip().split("\n")[0],
        )

    return mark


def suggest(field: str, value: Any, because: str) -> Suggest:
    """Fill ``field`` where the user left it unset."""
    return Suggest(field, value, because)


def force(field: str, value: Any, because: str) -> Force:
    """Set ``field`` whatever was asked."""
    return Force(field, value, because)


def require(
    condition: bool, because: str, *, fix: str = "", fields: tuple[str, ...] = (), kind: str = "ValueError"
) -> Require:
    """Refuse the configuration unless ``condition`` holds."""
    return Require(bool(condition), because, fix, fields, kind)


def set_env(name: str, value: str, because: str) -> SetEnv:
    """Have the workers start with an environment variable."""
    return SetEnv(name, value, because)
