"""The model source ``path``: what is already on this machine."""

from __future__ import annotations

from pathlib import Path

from sgl_core.api.worker import ProgressSink

from .files import CheckpointError


def fetch(name: str, *, download: bool, revision: str | None, progress: ProgressSink | None) -> Path:
    """The path itself. Raises :class:`CheckpointError` where nothing is there."""
    path = Path(name).expanduser()
    if not path.exists():
        raise CheckpointError(f"{path}: no such file or folder")
    return path
