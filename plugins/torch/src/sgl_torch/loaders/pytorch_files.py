"""PyTorch pickles (*.bin, *.pt, *.pth), read with ``weights_only`` so that no code of theirs runs."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from sgl_core.api.checkpoint import find_weights

from .quantized import LoadError
from .sharding import Shards

if TYPE_CHECKING:
    from sgl_core.api.checkpoint import ModelFiles

    from .iterate import LoadRequest

_WRAPPERS = ("state_dict", "model", "model_state_dict", "module")


def load(files: ModelFiles, request: LoadRequest) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors, file by file. Raises :class:`LoadError`."""
    paths, index = find_weights(files.root, "pt")
    if not paths:
        raise LoadError(f"{files.root}: no *.bin, *.pt or *.pth here, which the load format 'pt' needs")
    shards = Shards(paths, index)
    total, done = sum(path.stat().st_size for path in paths), 0
    for path in paths:
        tensors = _tensors(path)
        for name in shards.wanted(path, tensors):
            yield name, tensors[name]
        done += path.stat().st_size
        if request.progress is not None:
            request.progress("loading weights", done, total)
    shards.finish()


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        # Only the zip form can be mapped; the old one is read whole.
        content: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError as error:
        raise LoadError(
            f"{path}: the file holds more than weights, and sgl does not run code from checkpoints; "
            f"convert it to safetensors ({str(error).splitlines()[0]})"
        ) from None
    except Exception as error:  # whatever a damaged pickle makes the reader stumble over
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise LoadError(f"{path}: not a readable PyTorch file: {reason}") from None
    for wrapper in _WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping):
        raise LoadError(f"{path}: expected a mapping of names to tensors, found {type(content).__name__}")
    return {str(name): value for name, value in content.items() if isinstance(value, torch.Tensor)}
