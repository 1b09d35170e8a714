"""What can be refused before a device is probed or a model fetched: conflicts, a broken lock, and choices that cannot load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import Unavailable
from .lock import LOCK_FILE, verify_lock
from .platform import PlatformChoice, select_platform
from .registries import Registries
from .selection import SLOTS


def preflight(registries: Registries, asked: Any) -> None:
    """Check the plugins against what the operator asked for.

    ``asked`` is a ServerArgs: ``get(field)`` and ``explicit(field)``. With ``locked`` the installation must be what the lock file in
    the working directory says. Raises DuplicateNames, LockMismatch, Unavailable, LoadFailed, or RegistryError for a lock file that
    is missing.
    """
    registries.check()
    if asked.get("locked"):
        verify_lock(registries, Path(LOCK_FILE))
    for slot in SLOTS:
        if asked.explicit(slot.field):
            _check_choice(registries, slot.registry, slot.field, asked.get(slot.field))


def checked_platform(registries: Registries, asked: Any, env: Mapping[str, str]) -> PlatformChoice:
    """The platform that ``asked`` names or this machine is, after :func:`preflight`. Raises what that and select_platform raise."""
    preflight(registries, asked)
    return select_platform(registries, asked.get("device"), env)


def _check_choice(registries: Registries, name: str, field: str, value: Any) -> None:
    """Refuse an entry that cannot load. Names that nobody offers are left to selection, since a rule may translate them."""
    registry = registries[name]
    if not isinstance(value, str) or value not in registry:
        return
    registry.spec(value)
    status = registry.status(value)
    if status.state != "ok":
        owner = registry.owner(value)
        raise Unavailable(
            f"--{field.replace('_', '-')} {value} ({owner}) cannot be used here: {status.why}",
            registry=name,
            name=value,
            dist=owner.name,
            because=status.why,
        )
