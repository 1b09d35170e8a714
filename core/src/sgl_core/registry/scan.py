"""Reading which entries installed distributions offer: one pass over sys.path, entry_points.txt as text, no imports.

``importlib.metadata`` builds an object per distribution and per entry point; reading the one file as bytes and looking
for ``[sgl.`` keeps a start with a thousand plugins installed at a few tens of milliseconds.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Dist:
    """A distribution: its canonical name (``sgl-core``), version, and metadata folder ("" when added by a program)."""

    name: str
    version: str = ""
    location: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()


@dataclass(frozen=True, slots=True)
class RawEntry:
    """One line of an entry_points.txt in a group that starts with ``sgl.``."""

    group: str
    name: str
    value: str
    dist: Dist


@dataclass(slots=True)
class Scan:
    """What a pass found: all sgl entries, every installed distribution by name, and what could not be used and why."""

    entries: list[RawEntry] = field(default_factory=list)
    installed: dict[str, Dist] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def canonical(name: str) -> str:
    """A distribution name in its normal form (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def scan(path: Sequence[str] | None = None) -> Scan:
    """Scan ``path`` (default ``sys.path``).

    As in imports, the first folder that holds a distribution hides later ones. The working directory is never scanned
    when ``path`` is None, so that a folder with a prepared dist-info beside a model cannot bring in code.
    """
    result = Scan()
    seen_folders: set[str] = set()
    for folder in sys.path if path is None else path:
        real = os.path.realpath(folder or os.curdir)
        if real in seen_folders:
            continue
        seen_folders.add(real)
        if path is None and _is_working_directory(folder, real):
            continue
        if os.path.isdir(real):
            _scan_folder(real, result)
        elif os.path.isfile(real):
            _scan_with_metadata(_distributions_in(real), result)
    if path is None:
        _scan_with_metadata(_distributions_of_finders(), result)
    return result


def parse_entry_points(text: str) -> Iterator[tuple[str, str, str]]:
    """(group, name, value) of each ``sgl.`` entry in the text of an entry_points.txt; extras of a value are dropped."""
    group = ""
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if line[0] == "[" and line[-1] == "]":
            group = line[1:-1].strip()
        elif group.startswith("sgl."):
            name, equals, value = line.partition("=")
            if equals:
                yield group, name.strip(), value.partition("[")[0].strip()


def _is_working_directory(folder: str, real: str) -> bool:
    if folder in ("", os.curdir):
        return True
    if os.path.basename(real) in ("site-packages", "dist-packages"):
        return False
    try:
        return real == os.path.realpath(os.getcwd())
    except OSError:  # the working directory was deleted
        return False


def _scan_folder(folder: str, result: Scan) -> None:
    try:
        names = [entry.name for entry in os.scandir(folder) if entry.name.endswith((".dist-info", ".egg-info"))]
    except OSError as error:
        result.problems.append(f"cannot read {folder}: {error.strerror or error}")
        return
    here: dict[str, list[tuple[str, str]]] = {}
    for metadata_name in names:
        name, version = _identity(folder, metadata_name)
        if name:
            here.setdefault(name, []).append((version, metadata_name))
    for name, found in here.items():
        if name in result.installed:
            continue
        if len(found) > 1:
            # An interrupted upgrade leaves two metadata folders; the one written last is what pip believes in.
            found.sort(key=lambda item: _mtime(os.path.join(folder, item[1])))
            versions = ", ".join(version for version, _ in found)
            result.problems.append(f"{name} is installed more than once in {folder} ({versions}); reinstall it")
        version, metadata_name = found[-1]
        location = os.path.join(folder, metadata_name)
        dist = Dist(name, version, location)
        result.installed[name] = dist
        try:
            with open(os.path.join(location, "entry_points.txt"), "rb") as file:
                raw = file.read()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            result.problems.append(f"{dist}: cannot read entry_points.txt: {error.strerror or error}")
            continue
        if b"[sgl." in raw:
            _take(dist, raw, result)


def _take(dist: Dist, raw: bytes, result: Scan) -> None:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        result.problems.append(f"{dist}: entry_points.txt is not UTF-8; its entries are left out")
        return
    result.entries.extend(RawEntry(group, name, value, dist) for group, name, value in parse_entry_points(text))


def _identity(folder: str, metadata_name: str) -> tuple[str, str]:
    """Name and version from the metadata folder's name, or from its contents where the name does not say."""
    stem, _, suffix = metadata_name.rpartition(".")
    if suffix == "egg-info":
        name, _, rest = stem.partition("-")
        version = rest.rpartition("-py")[0] or rest
    else:
        name, _, version = stem.rpartition("-")
        name = name or stem
    if not version or version == stem:
        name, version = _identity_from_file(os.path.join(folder, metadata_name), name)
    return canonical(name), version


def _identity_from_file(location: str, name: str) -> tuple[str, str]:
    version = ""
    for candidate in (os.path.join(location, "METADATA"), os.path.join(location, "PKG-INFO"), location):
        try:
            with open(candidate, encoding="utf-8", errors="replace") as file:
                for line in file:
                    if not line.strip():
                        break
                    if line.startswith("Name:"):
                        name = line[5:].strip()
                    elif line.startswith("Version:"):
                        version = line[8:].strip()
            break
        except OSError:
            continue
    return name, version


def _mtime(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _distributions_in(archive: str) -> Iterator[Any]:
    """Distributions inside a zip or egg on the path."""
    import importlib.metadata

    return iter(importlib.metadata.distributions(path=[archive]))


def _distributions_of_finders() -> Iterator[Any]:
    """Distributions that only an import hook knows (frozen applications, in-memory packages)."""
    for finder in sys.meta_path:
        owner = finder.__module__ if isinstance(finder, type) else type(finder).__module__
        find = getattr(finder, "find_distributions", None)
        if find is None or owner.split(".")[0] in ("_frozen_importlib_external", "importlib_metadata"):
            continue
        import importlib.metadata

        yield from find(importlib.metadata.DistributionFinder.Context())


def _scan_with_metadata(distributions: Iterator[Any], result: Scan) -> None:
    try:
        for distribution in distributions:
            name = canonical(distribution.metadata["Name"] or "")
            if not name or name in result.installed:
                continue
            dist = Dist(name, distribution.version, str(getattr(distribution, "_path", "")))
            result.installed[name] = dist
            text = distribution.read_text("entry_points.txt") or ""
            if "[sgl." in text:
                _take(dist, text.encode(), result)
    except Exception as error:  # a foreign finder or a broken archive must not end the scan
        result.problems.append(f"reading package metadata failed: {type(error).__name__}: {error}")
