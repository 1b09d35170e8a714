"""Served or refused: which installed part acts on a field, and the refusal of a flag on which none does.

A part says so in one line, the ``serves`` of its spec (any registry), or of one of the :data:`CORE_PARTS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .choices import registry_of
from .core_parts import CORE_PARTS
from .declare import Field, FromRegistry
from .errors import ConfigError
from .fields import fields
from .ledger import shown
from .server_args import ServerArgs, refuse


@dataclass(frozen=True, slots=True)
class Part:
    """Something installed that acts on fields. ``dist`` is the distribution it belongs to."""

    name: str
    serves: tuple[str, ...]
    dist: str = ""

    @property
    def label(self) -> str:
        return f"{self.name} ({self.dist})" if self.dist else self.name


def parts_of(registries: Any, active: Mapping[str, str] | None = None) -> list[Part]:
    """The parts of this installation: the core's, and every available entry that serves fields.

    ``active`` (slot to chosen entry name, as in a plan's selection) leaves out entries of those registries that were not chosen.
    """
    parts = [Part(name, serves, "sgl-core") for name, serves in CORE_PARTS.items()]
    for registry in registries if registries is not None else ():
        for spec in registry.specs():
            chosen = (active or {}).get(registry.info.name)
            if spec.available and spec.serves and chosen in (None, spec.name):
                parts.append(
                    Part(f"{registry.info.name} {spec.name}", tuple(spec.serves), registry.owner(spec.name).name)
                )
    return parts


@dataclass(frozen=True, slots=True)
class Served:
    """The parts that act on one field and the values they take; ``values`` None means all."""

    parts: tuple[Part, ...]
    values: tuple[str, ...] | None

    def takes(self, value: Any) -> bool:
        return self.values is None or str(value).lower() in self.values


def serving(parts: Iterable[Part]) -> dict[str, Served]:
    """Who acts on each field. Raises KeyError for a part that names no field."""
    table: dict[str, Served] = {}
    for part in parts:
        for entry in part.serves:
            name, limited, values = entry.partition("=")
            if name not in fields():
                raise KeyError(f"{part.label} says that it serves {name!r}, which is no configuration field")
            before = table.get(name, Served((), ()))
            taken = tuple(values.lower().split("|")) if limited else None
            joined = None if taken is None or before.values is None else (*before.values, *taken)
            table[name] = Served((*before.parts, part), joined)
    return table


def check_served(args: ServerArgs, parts: Iterable[Part], registries: Any = None, others: Iterable[Part] = ()) -> None:
    """Refuse explicit settings, other than the default, on which none of ``parts`` acts.

    ``others`` are parts that exist but take no part now (another platform, another backend): the refusal names them. With
    ``registries``, a choice that is known but not available is refused too. Raises :class:`ConfigError` naming every such setting.
    """
    table = serving(parts)
    elsewhere = serving(others)
    problems: list[ConfigError] = []
    for name in args:
        declared = fields()[name]
        value = args.get(name)
        setting = args.setting(name)
        if setting is None or value == declared.default:
            continue
        served = served_by(declared, table)
        because = fix = ""
        if served is None:
            because = f"no installed part acts on {name} = {shown(declared, value)}"
            fix = advice(name, elsewhere)
        elif not served.takes(value):
            because = f"no installed part takes {name} = {shown(declared, value)}"
            fix = f"use {' or '.join(served.values or ())}"
        else:
            because = unavailable(declared, value, registries)
            fix = "`sgl plugin list` shows what is available" if because else ""
        if because:
            where = f"{setting.spelled}: " if setting.spelled != name else ""
            problems.append(ConfigError(where + because, fields=(name,), fix=fix, kind="NotServed"))
    refuse(problems)


def served_by(declared: Field, table: Mapping[str, Served]) -> Served | None:
    """Who acts on a field; for a deprecated one, who acts on the fields that replace it."""
    if declared.name in table:
        return table[declared.name]
    for word in re.findall(r"\w+", declared.replaced_by):
        if word in table:
            return Served(table[word].parts, None)
    return None


def unavailable(declared: Field, value: Any, registries: Any) -> str:
    """Why a choice of a registry cannot be served here, or an empty text."""
    if not isinstance(declared.choices, FromRegistry) or value in declared.choices.plus or not isinstance(value, str):
        return ""
    registry = registry_of(registries, declared.choices.registry)
    if registry is None:
        return ""
    if not len(registry):
        hint = f"; install {registry.info.install}" if registry.info.install else ""
        return f"no installed package offers {declared.name} {value!r}{hint}"
    status = registry.status(value)
    return "" if status.state == "ok" else f"{declared.name} {value!r} is {status.state}: {status.why}"


def advice(name: str, elsewhere: Mapping[str, Served]) -> str:
    """What to do about a field that nothing serves."""
    if name in elsewhere:
        return f"leave it out, or use {' or '.join(part.label for part in elsewhere[name].parts)}, which acts on it"
    return "leave it out; `sgl explain --coverage` lists what is served"


def coverage(parts: Iterable[Part]) -> dict[str, tuple[list[str], list[str]]]:
    """Per subject: served field names and refused ones, in the order of declaration."""
    table = serving(parts)
    result: dict[str, tuple[list[str], list[str]]] = {}
    for name, declared in fields().items():
        served, refused = result.setdefault(declared.subject, ([], []))
        (refused if served_by(declared, table) is None else served).append(name)
    return result
