"""iterate: the one way weights come in. Which format is read is an entry of the ``load_formats`` registry."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch

from sgl_core.api.worker import ProgressSink

from ..load_format_specs import DUMMY, GGUF, PT, SAFETENSORS
from .quantized import LoadError, QuantizedTensor

if TYPE_CHECKING:
    from sgl_core.api.checkpoint import ModelFiles

_OWN = {spec.name: spec.target for spec in (SAFETENSORS, PT, GGUF, DUMMY)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """What a loader is told besides the files.

    ``expected`` maps every tensor name the model wants to its shape; only formats that invent weights need it.
    ``progress`` is told bytes.
    """

    expected: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dtype: torch.dtype = torch.float32
    seed: int = 0
    progress: ProgressSink | None = None


class LoadFormat(Protocol):
    """The target of a ``load_formats`` entry."""

    def __call__(
        self, files: ModelFiles, request: LoadRequest
    ) -> Iterator[tuple[str, torch.Tensor | QuantizedTensor]]: ...


def iterate(
    files: ModelFiles,
    load_format: str = "auto",
    *,
    registries: Any = None,
    progress: ProgressSink | None = None,
    expected: Mapping[str, tuple[int, ...]] | None = None,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Iterator[tuple[str, torch.Tensor | QuantizedTensor]]:
    """The checkpoint's tensors under their Hugging Face names, on the CPU, in the files' own dtypes (views where possible).

    ``auto`` is the format the files have. ``registries`` gives the formats of other packages; without it this package's own are
    known. ``expected``, ``dtype`` and ``seed`` serve the format ``dummy``. Raises :class:`LoadError`.
    """
    name = files.load_format if load_format == "auto" else load_format
    if load_format == "auto" and name == "dummy":
        raise LoadError(f"{files.path}: no weight files here; '--load-format dummy' runs with random weights")
    request = LoadRequest(expected=expected or {}, dtype=dtype, seed=seed, progress=progress)
    return _loader(name, registries)(files, request)


def _loader(name: str, registries: Any) -> LoadFormat:
    if registries is not None:
        loader: LoadFormat = registries.load_formats.load(name)
        return loader
    if name not in _OWN:
        raise LoadError(f"the load format {name!r} is not known (known: auto, {', '.join(sorted(_OWN))})")
    module, _, attribute = _OWN[name].partition(":")
    own: LoadFormat = getattr(importlib.import_module(module), attribute)
    return own
