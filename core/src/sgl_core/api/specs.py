"""Specs: the torch-free data with which a plugin states what an implementation is and what it supports.

A spec is found by its entry point (group ``sgl.<registry>.v1``), is cheap to import, and names its heavy
implementation by a string target, ``"module:attribute"``, that is imported only when the choice is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """A setting of its own that a plugin adds: shown in ``--help``, set by ``--plugin-option NAME=VALUE``.

    ``name`` is written ``<entry>.<option>``, for example ``example_attention.block``.
    """

    name: str
    type: type = str
    default: Any = None
    help: str = ""
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What every registry entry states.

    ``platforms`` empty means every platform. ``requires`` holds PEP 508 strings of distributions that the target
    imports. ``roles`` says which processes load the target. ``available`` false marks a choice that is known
    (legal in configuration, visible in lists) but not yet served; ``unavailable_because`` then says why.
    """

    name: str
    target: str = ""
    summary: str = ""
    aliases: tuple[str, ...] = ()
    deprecated_aliases: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    roles: tuple[str, ...] = ("worker",)
    options: tuple[Option, ...] = ()
    available: bool = True
    unavailable_because: str = ""
    flags: frozenset[str] = frozenset()
    """Free capability words that rules query, for example ``deterministic`` or ``chunked_prefix``."""
    serves: tuple[str, ...] = ()
    """Configuration fields on which this entry acts, for example ``page_size``; ``kv_cache_dtype=auto|bfloat16`` limits the
    values. A flag on which no installed part acts is refused."""


@dataclass(frozen=True, kw_only=True)
class PlatformSpec(Spec):
    """A platform. ``target`` is its runtime factory ``runtime(plan) -> PlatformRuntime``.

    ``probe`` is a string target ``probe() -> Facts | None``, fast and without torch where possible. Platforms are
    probed from the highest ``probe_order`` down; ``cpu`` is the last. ``rank`` orders, per registry, the entries the
    platform prefers. ``profiles`` names packaged Facts profiles (``module:folder``) for ``sgl explain --facts``.
    ``preload`` is a string target ``preload() -> None`` that a worker process calls while its plan is still being made: it sets the
    variables that libraries read once and imports them. A plan whose rules set variables of others gets a process without it.
    """

    probe: str = ""
    probe_order: int = 0
    env_names: tuple[str, ...] = ()
    rank: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    profiles: str = ""
    preload: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelSpec(Spec):
    """A model architecture; ``name`` is the Hugging Face architecture, ``target`` a torch module class."""

    attention_kind: str = "mha"
    modalities: tuple[str, ...] = ("text",)
    tasks: tuple[str, ...] = ("generate",)
    """Any of ``generate``, ``embed``, ``classify``, ``rerank``."""
    stacked_weights: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Fused parameter name to the checkpoint names stacked in it, for example ``qkv_proj: (q_proj, k_proj, v_proj)``."""


@dataclass(frozen=True, kw_only=True)
class AttentionSpec(Spec):
    """An attention backend. ``arch`` is an inclusive window of device capability, major*10+minor (90 = SM90)."""

    kinds: frozenset[str] = frozenset({"mha"})
    arch: tuple[int, int] | None = None
    kv_dtypes: frozenset[str] = frozenset({"auto"})
    page_sizes: tuple[int, ...] = ()
    """Allowed page sizes; empty means any."""
    preferred_page_size: int | None = None
    phases: frozenset[str] = frozenset({"prefill", "decode"})
    sliding_window: bool = False
    sinks: bool = False
    soft_cap: bool = False
    graph: bool = False


@dataclass(frozen=True, kw_only=True)
class MoeRunnerSpec(Spec):
    """A mixture-of-experts runner. ``quant_formats`` lists the weight formats it multiplies."""

    quant_formats: frozenset[str] = frozenset({"none"})
    dispatch_formats: frozenset[str] = frozenset({"standard"})
    arch: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class QuantizationSpec(Spec):
    """A quantization method; ``name`` is the checkpoint's ``quant_method``.

    ``target`` is ``config_from(dict) -> QuantConfig``; see sgl_torch.layers.quant for the contract of the result.
    """

    bits: float = 16
    online: bool = False
    """True when unquantized weights can be quantized while they load."""
    checkpoint: bool = True
    arch: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class LoadFormatSpec(Spec):
    """A checkpoint format. ``suffixes`` are the file endings by which ``auto`` recognises it."""

    suffixes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RuleSetSpec(Spec):
    """A set of configuration rules. ``target`` names a sequence of functions marked with :func:`sgl_core.api.rules.rule`.

    ``architectures`` limits the set to models of those names; empty means it is always consulted.
    """

    architectures: tuple[str, ...] = ()
    roles: tuple[str, ...] = ("parent",)


@dataclass(frozen=True, kw_only=True)
class ParserSpec(Spec):
    """A tool-call or reasoning parser. ``template_markers`` are strings of a chat template by which ``auto`` picks it."""

    template_markers: tuple[str, ...] = ()
    roles: tuple[str, ...] = ("front",)


@dataclass(frozen=True, kw_only=True)
class GrammarSpec(Spec):
    """A constrained-decoding backend. ``kinds`` is a subset of json_object, json_schema, regex, ebnf, choice, structural_tag."""

    kinds: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class ModelSourceSpec(Spec):
    """Where a MODEL argument may come from. ``prefixes`` such as ``pypi:`` select the source."""

    prefixes: tuple[str, ...] = ()
    roles: tuple[str, ...] = ("parent",)


@dataclass(frozen=True, kw_only=True)
class CommandSpec(Spec):
    """A subcommand of ``sgl``. ``target`` is ``main(argv: list[str]) -> int``; ``summary`` is its help line."""

    roles: tuple[str, ...] = ("cli",)
    group: str = "Commands"


@dataclass(frozen=True, kw_only=True)
class OpSpec(Spec):
    """One implementation of a named op. ``op`` is the op's name; the higher ``priority`` wins where it can serve."""

    op: str = ""
    priority: int = 0


@dataclass(frozen=True, kw_only=True)
class ChoiceSpec(Spec):
    """A plain choice of a registry that states no more than every spec does."""
