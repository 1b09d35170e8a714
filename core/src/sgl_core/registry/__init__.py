"""Registries of everything that can be chosen: scan of entry points, lazy entries, queries over specs, conflicts, policy."""

from .errors import DuplicateNames, LoadFailed, RegistryError, Unavailable, UnknownName, UnknownRegistry
from .policy import FIRST_PARTY, Policy
from .query import Answer, why_not
from .registries import Registries
from .registry import Offer, Registry, Status
from .scan import Dist
from .table import TABLE, RegistryInfo

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
