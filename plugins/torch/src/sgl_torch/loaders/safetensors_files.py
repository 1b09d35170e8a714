"""Safetensors weights: single files and shards. Where there is an index, its assignment decides which copy of a tensor counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open

from sgl_core.api.checkpoint import SafetensorsError, find_weights, read_safetensors_header

from .quantized import LoadError
from .sharding import Shards

if TYPE_CHECKING:
    from sgl_core.api.checkpoint import ModelFiles

    from .iterate import LoadRequest


def load(files: ModelFiles, request: LoadRequest) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors, as views into the mapped files. Raises :class:`LoadError`."""
    paths, index = find_weights(files.root, "safetensors")
    if not paths:
        raise LoadError(f"{files.root}: no *.safetensors here, which the load format 'safetensors' needs")
    shards = Shards(paths, index)
    total, done = sum(path.stat().st_size for path in paths), 0
    for path in paths:
        try:
            header = read_safetensors_header(path)
            with safe_open(path, framework="pt", device="cpu") as file:
                for name in shards.wanted(path, header):
                    yield name, file.get_tensor(name)
                    if request.progress is not None:
                        entry = header[name]
                        request.progress("loading weights", done + entry.offset + entry.nbytes, total)
        except (SafetensorsError, SafetensorError) as error:
            raise LoadError(f"{path.name}: {error}") from None
        done += path.stat().st_size
        if request.progress is not None:
            request.progress("loading weights", done, total)
    shards.finish()
