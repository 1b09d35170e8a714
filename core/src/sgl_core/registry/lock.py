"""The plugin lock file: which distributions took part, with version and content hashes, and whether that still holds."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import RegistryError
from .registries import Registries
from .scan import Dist

LOCK_FILE = "sgl-plugins.lock"
"""The default name of the lock file, in the working directory."""

_FORMAT = 1


class LockMismatch(RegistryError):
    """What is installed differs from the lock; ``differences`` lists each one."""

    def __init__(self, differences: list[str]) -> None:
        super().__init__(
            f"installed plugins differ from the lock: {'; '.join(differences)}. If that is meant, run `sgl plugin lock` again"
        )
        self.differences = differences


def make_lock(registries: Registries) -> dict[str, Any]:
    """The lock as data: every distribution that offers an entry, its version and the SHA-256 of its RECORD.

    A distribution without RECORD (installed by a system package manager) and an editable one (its files may change at
    any time) are marked as such; for them only the version can be compared.
    """
    dists = {}
    for name, dist in sorted(registries.dists.items()):
        item: dict[str, Any] = {"version": dist.version, "record_sha256": record_hash(dist)}
        if is_editable(dist):
            item["editable"] = True
        dists[name] = item
    return {"format": _FORMAT, "dists": dists}


def write_lock(registries: Registries, path: Path) -> dict[str, Any]:
    """Write the lock file and return its data."""
    data = make_lock(registries)
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    return data


def read_lock(path: Path) -> dict[str, Any]:
    """The lock's data. Raises RegistryError when the file is missing or is no lock of this format."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RegistryError(f"there is no lock file {path}; write it with `sgl plugin lock`") from None
    except (OSError, ValueError) as error:
        raise RegistryError(f"cannot read the lock file {path}: {error}") from error
    if not isinstance(data, dict) or data.get("format") != _FORMAT or not isinstance(data.get("dists"), dict):
        raise RegistryError(f"{path} is not a plugin lock of format {_FORMAT}; write it anew with `sgl plugin lock`")
    return data


def differences(registries: Registries, lock: Mapping[str, Any], files: bool = True) -> list[str]:
    """How the installation differs from a lock, in words; empty when it does not.

    ``files`` also compares every installed file with the hash that RECORD gives for it.
    """
    found: list[str] = []
    locked: Mapping[str, Mapping[str, Any]] = lock["dists"]
    for name, item in sorted(locked.items()):
        dist = registries.dists.get(name)
        if dist is None:
            found.append(f"{name} {item['version']} is locked but not installed (or excluded)")
        elif dist.version != item["version"]:
            found.append(f"{name} is locked at {item['version']}, {dist.version} is installed")
        elif record_hash(dist) != item.get("record_sha256"):
            found.append(f"{dist} has the locked version but other contents (RECORD differs)")
        elif files:
            found += [f"{dist}: {problem}" for problem in changed_files(dist)]
    found += [
        f"{dist} is installed but not locked" for name, dist in sorted(registries.dists.items()) if name not in locked
    ]
    return found


def verify_lock(registries: Registries, path: Path) -> None:
    """``--locked``: raise LockMismatch unless the installation is exactly what the lock file says."""
    found = differences(registries, read_lock(path))
    if found:
        raise LockMismatch(found)


def record_hash(dist: Dist) -> str | None:
    """The SHA-256 of a distribution's RECORD, or None when it has none."""
    try:
        return hashlib.sha256((Path(dist.location) / "RECORD").read_bytes()).hexdigest()
    except OSError:
        return None


def is_editable(dist: Dist) -> bool:
    """Whether a distribution is installed in editable (development) form."""
    try:
        data = json.loads((Path(dist.location) / "direct_url.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(data.get("dir_info", {}).get("editable"))


def changed_files(dist: Dist) -> list[str]:
    """The files of a distribution whose contents are not what its RECORD says."""
    root = Path(dist.location).parent
    try:
        lines = (Path(dist.location) / "RECORD").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    changed = []
    for row in csv.reader(lines):
        if len(row) < 2 or not row[1].startswith("sha256="):
            continue
        try:
            digest = hashlib.sha256((root / row[0]).read_bytes()).digest()
        except OSError:
            changed.append(f"{row[0]} is missing")
            continue
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != row[1].removeprefix("sha256="):
            changed.append(f"{row[0]} was changed after installation")
    return changed
