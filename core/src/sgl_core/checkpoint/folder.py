"""Describing what lies on the local disk: a Hugging Face folder, a GGUF file or its shards. Never makes a connection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .files import CheckpointError, ModelFiles
from .gguf_config import config_from_gguf, generation_config_from_gguf
from .gguf_file import GgufError, GgufFile, read_gguf
from .json_file import read_json_object

_SHARD = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")
# The ending and the usual name by load format, the preferred one first.
_USUAL = {"safetensors": (".safetensors", "model"), "pt": (".bin", "pytorch_model")}
# Files beside pytorch weights that are no weights.
_NOT_WEIGHTS = re.compile(r"^(training_args|optimizer|scheduler|scaler|rng_state|random_states).*\.(bin|pt|pth)$")


def describe(path: str | Path, *, model: str = "", source: str = "path", revision: str | None = None) -> ModelFiles:
    """Read the configuration of the model at a local path.

    Raises :class:`CheckpointError` where the path holds no model or its files contradict each other.
    """
    found = Path(path).expanduser().absolute()  # workers may run in another folder
    named: dict[str, Any] = {"model": model or str(path), "source": source, "revision": revision}
    if found.is_dir():
        return _describe_folder(found, named)
    if not found.exists():
        raise CheckpointError(f"{found}: no such file or folder")
    if found.suffix != ".gguf":
        raise CheckpointError(f"{found}: expected a folder with a config.json, or a file ending in .gguf")
    return _describe_gguf(found, named)


def _describe_folder(root: Path, named: dict[str, Any]) -> ModelFiles:
    config = read_json_object(root / "config.json")
    load_format, weights, index = _weight_files(root)
    ggufs = _gguf_heads(root)
    if not config or (not weights and ggufs):
        if not ggufs:
            raise CheckpointError(f"{root}: no config.json and no .gguf file here; is this a model folder?")
        if len(ggufs) > 1:
            names = ", ".join(sorted(file.name for file in ggufs))
            raise CheckpointError(f"{root}: several GGUF models here ({names}); give the path of one of them")
        return _describe_gguf(ggufs[0], named)
    return ModelFiles(
        root=root,
        path=root,
        kind="hf",
        load_format=load_format,
        weights=weights,
        index=index,
        config=config,
        generation_config=read_json_object(root / "generation_config.json"),
        tokenizer_config=read_json_object(root / "tokenizer_config.json"),
        weight_bytes=sum(file.stat().st_size for file in weights),
        **named,
    )


def _describe_gguf(path: Path, named: dict[str, Any]) -> ModelFiles:
    try:
        shards = tuple(read_gguf(shard) for shard in _gguf_shards(path))
        config = config_from_gguf(shards)
    except GgufError as error:
        raise CheckpointError(str(error)) from None
    return ModelFiles(
        root=path.parent,
        path=shards[0].path,
        kind="gguf",
        load_format="gguf",
        weights=tuple(shard.path for shard in shards),
        config=config,
        generation_config=generation_config_from_gguf(shards[0]),
        weight_bytes=sum(_tensor_bytes(shard) for shard in shards),
        gguf=shards,
        **named,
    )


def _tensor_bytes(file: GgufFile) -> int:
    return sum(tensor.nbytes for tensor in file.tensors.values())


def _gguf_heads(root: Path) -> list[Path]:
    """The GGUF models of a folder: single files and first shards. Projector files (``mmproj``) are no models."""
    heads = []
    for file in sorted(root.glob("*.gguf")):
        shard = _SHARD.match(file.name)
        if (shard is None or int(shard["number"]) == 1) and not file.name.startswith("mmproj"):
            heads.append(file)
    return heads


def _gguf_shards(path: Path) -> list[Path]:
    shard = _SHARD.match(path.name)
    if shard is None:
        return [path]
    count = int(shard["count"])
    files = [path.with_name(f"{shard['stem']}-{number:05d}-of-{count:05d}.gguf") for number in range(1, count + 1)]
    missing = [file.name for file in files if not file.exists()]
    if missing:
        raise CheckpointError(f"{path.parent}: shards missing of {path.name}: {', '.join(missing)}")
    return files


def find_weights(root: Path, load_format: str) -> tuple[tuple[Path, ...], Mapping[str, str] | None]:
    """The weight files of a folder in the format ``safetensors`` or ``pt``, and their index (tensor name to file name).

    A complete index decides, then the single file of the usual name, then every file of the kind; files that belong
    to none of these (a second copy in another split, an original-format file) are left alone. Nothing found: no files.
    """
    suffix, stem = _USUAL[load_format]
    single = root / f"{stem}{suffix}"
    index = _read_index(root / f"{stem}{suffix}.index.json", single)
    if index is not None:
        return tuple(root / name for name in sorted(set(index.values()))), index
    if single.is_file():
        return (single,), None
    files = [file for file in sorted(root.glob(f"*{suffix}")) if not _NOT_WEIGHTS.match(file.name)]
    if not files and load_format == "pt":
        pickles = sorted([*root.glob("*.pt"), *root.glob("*.pth")])
        return tuple(file for file in pickles if not _NOT_WEIGHTS.match(file.name)), None
    return tuple([file for file in files if not file.name.startswith("consolidated")] or files), None


def _weight_files(root: Path) -> tuple[str, tuple[Path, ...], Mapping[str, str] | None]:
    for load_format in _USUAL:
        files, index = find_weights(root, load_format)
        if files:
            return load_format, files, index
    return "dummy", (), None


def _read_index(path: Path, single: Path) -> dict[str, str] | None:
    weight_map = read_json_object(path).get("weight_map")
    if weight_map is None:
        return None
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise CheckpointError(f"{path}: 'weight_map' must map tensor names to file names")
    names = sorted(set(weight_map.values()))
    outside = [name for name in names if Path(name).is_absolute() or ".." in Path(name).parts]
    if outside:
        raise CheckpointError(f"{path}: names a file outside the model's folder: {outside[0]!r}")
    missing = [name for name in names if not (path.parent / name).is_file()]
    if missing and single.is_file():
        return None  # an index left over beside the merged file
    if missing:
        raise CheckpointError(f"{path}: {len(missing)} of {len(names)} weight files are missing, first {missing[0]!r}")
    return weight_map
