"""Registries of everything that can be chosen: scan of entry points, lazy entries, queries over specs, conflicts, policy.

The names below are imported when first used (PEP 562), so that ``sgl --help`` can scan without loading the spec classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import DuplicateNames, LoadFailed, RegistryError, Unavailable, UnknownName, UnknownRegistry
    from .policy import FIRST_PARTY, Policy
    from .query import Answer, why_not
    from .registries import Registries
    from .registry import Offer, Registry, Status
    from .scan import Dist
    from .table import TABLE, RegistryInfo

_HOME = {
    "DuplicateNames": "errors",
    "LoadFailed": "errors",
    "RegistryError": "errors",
    "Unavailable": "errors",
    "UnknownName": "errors",
    "UnknownRegistry": "errors",
    "FIRST_PARTY": "policy",
    "Policy": "policy",
    "Answer": "query",
    "why_not": "query",
    "Registries": "registries",
    "Offer": "registry",
    "Registry": "registry",
    "Status": "registry",
    "Dist": "scan",
    "TABLE": "table",
    "RegistryInfo": "table",
}

__all__ = [
    "FIRST_PARTY",
    "TABLE",
    "Answer",
    "Dist",
    "DuplicateNames",
    "LoadFailed",
    "Offer",
    "Policy",
    "Registries",
    "Registry",
    "RegistryError",
    "RegistryInfo",
    "Status",
    "Unavailable",
    "UnknownName",
    "UnknownRegistry",
    "why_not",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)
