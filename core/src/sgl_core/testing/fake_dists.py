"""Fake installed distributions in a folder: metadata and modules, as an installer would leave them, for discovery tests."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path


def fake_dist(
    folder: Path,
    name: str,
    version: str = "1.0",
    entries: Mapping[str, Mapping[str, str]] | None = None,
    modules: Mapping[str, str] | None = None,
    requires: tuple[str, ...] = (),
) -> Path:
    """Install a fake distribution into ``folder`` and return its dist-info folder.

    ``entries`` maps a group (``sgl.attention.v1``; a bare registry name means version 1) to {entry name: ``module:attribute``}. ``modules``
    maps file names (``pkg/specs.py``) to their text. METADATA, RECORD (with hashes) and entry_points.txt are written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = dict(modules or {})
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
    files[f"{info}/METADATA"] = "\n".join(metadata) + "\n"
    if entries:
        sections = []
        for group, lines in entries.items():
            full = group if "." in group else f"sgl.{group}.v1"
            sections.append("\n".join([f"[{full}]", *(f"{entry} = {value}" for entry, value in lines.items())]))
        files[f"{info}/entry_points.txt"] = "\n\n".join(sections) + "\n"
    record = []
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        target.write_bytes(data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{path},sha256={digest},{len(data)}")
    record.append(f"{info}/RECORD,,")
    (folder / info / "RECORD").write_text("\n".join(record) + "\n")
    return folder / info


def fake_dists(folder: Path, count: int, registry: str = "attention", entries_each: int = 2) -> None:
    """Install ``count`` distributions ``fake-plugin-0`` ... with ``entries_each`` entries each and one shared spec module.

    The spec module raises when it is imported, so that a test fails when mere listing imports something.
    """
    for index in range(count):
        module = f"fake_plugin_{index}"
        lines = {f"fake_{index}_{n}": f"{module}:SPEC_{n}" for n in range(entries_each)}
        fake_dist(
            folder,
            f"fake-plugin-{index}",
            entries={registry: lines},
            modules={f"{module}.py": "raise RuntimeError('a listing must not import plugins')\n"},
        )
