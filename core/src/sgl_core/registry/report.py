"""What is installed, as plain JSON data: the one source of ``sgl plugin list``, ``sgl plugin show`` and ``sgl doctor``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .codec import spec_to_dict
from .errors import RegistryError, UnknownName, did_you_mean, nearest
from .lock import is_editable
from .policy import FIRST_PARTY
from .registries import Registries
from .registry import Offer, Registry
from .scan import canonical


def list_data(registries: Registries, only: str | None = None, dist: str | None = None) -> dict[str, Any]:
    """Distributions, entries (with their state) and problems. ``only`` limits to a registry, ``dist`` to a distribution.

    Imports specs, never targets. Raises UnknownRegistry or RegistryError for an unknown ``only`` or ``dist``.
    """
    chosen: Iterable[Registry[Any]] = [registries[only]] if only else registries
    entries = [row for registry in chosen for row in entry_rows(registry)]
    if dist is not None:
        entries = [row for row in entries if row["dist"] == canonical(dist)]
        if not entries:
            known = sorted({offer.dist.name for registry in registries for offer in registry.offers()})
            raise RegistryError(f"no entry is offered by {dist}{did_you_mean(nearest(dist, known))}")
    named = {row["dist"] for row in entries}
    return {
        "dists": [row for row in dist_rows(registries) if row["name"] in named],
        "entries": entries,
        "problems": list(registries.problems),
    }


def dist_rows(registries: Registries) -> list[dict[str, Any]]:
    """One row for every distribution that offers an entry, whether policy admits it or not."""
    found = {offer.dist.name: offer for registry in registries for offer in registry.offers()}
    return [
        {
            "name": name,
            "version": offer.dist.version,
            "first_party": name in FIRST_PARTY,
            "editable": is_editable(offer.dist),
            "excluded": offer.excluded,
        }
        for name, offer in sorted(found.items())
    ]


def entry_rows(registry: Registry[Any]) -> list[dict[str, Any]]:
    """One row for every claim to a name in a registry."""
    return [_row(registry, offer) for offer in registry.offers()]


def show_data(registries: Registries, name: str) -> list[dict[str, Any]]:
    """Every entry called ``name`` (or ``registry.name``, or an alias), with its whole spec. Raises UnknownName."""
    wanted, _, entry = name.partition(".")
    chosen = [registries[wanted]] if entry and wanted in registries else list(registries)
    entry = entry if entry and wanted in registries else name
    rows = []
    spellings: set[str] = set()
    for registry in chosen:
        table = registry.spellings()
        spellings.update(table)
        target = table.get(entry, entry)
        for offer in registry.offers():
            if offer.name == target:
                row = _row(registry, offer)
                row["group"] = registry.info.group
                row["entry"] = offer.value
                row["spec"] = spec_to_dict(offer.spec) if offer.spec is not None else None
                rows.append(row)
    if not rows:
        close = nearest(entry, spellings)
        raise UnknownName(
            f"no installed package offers {name!r}{did_you_mean(close)}", registry="", name=name, suggestions=close
        )
    return rows


def _row(registry: Registry[Any], offer: Offer) -> dict[str, Any]:
    state, why = "excluded", offer.excluded
    if not offer.excluded:
        status = registry.status(offer.name)
        state, why = status.state, status.why
        if state != "conflict" and registry.owner(offer.name) != offer.dist:
            state, why = "passed over", f"{registry.owner(offer.name)} has the name"
    spec = offer.spec
    return {
        "registry": registry.info.name,
        "name": offer.name,
        "dist": offer.dist.name,
        "version": offer.dist.version,
        "state": state,
        "why": why,
        "summary": spec.summary if spec is not None else "",
        "aliases": list(spec.aliases) if spec is not None else [],
        "target": spec.target if spec is not None else "",
    }
