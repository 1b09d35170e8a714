"""Shards: which tensors to take from which file of a checkpoint, and the errors of checkpoints that contradict themselves."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from .quantized import LoadError

_logger = logging.getLogger(__name__)


class Shards:
    """Follows a checkpoint file by file.

    With an index, a tensor is taken from the file that the index names and from no other; a tensor that the index does not
    know is left out with a note. Without one, a tensor that comes twice is an error.
    """

    def __init__(self, paths: Iterable[Path], index: Mapping[str, str] | None) -> None:
        self.paths = tuple(paths)
        self.index = index
        self._taken: dict[str, Path] = {}

    def wanted(self, path: Path, names: Iterable[str]) -> list[str]:
        """The tensors to take from this file. Raises :class:`LoadError` for one that came before."""
        if self.index is None:
            chosen = list(names)
        else:
            chosen = [name for name in names if self.index.get(name) == path.name]
            unknown = [name for name in names if name not in self.index]
            if unknown:
                _logger.warning(
                    "%s: %d tensors are not in the index and are left out: %s", path.name, len(unknown), _first(unknown)
                )
        for name in chosen:
            if name in self._taken:
                raise LoadError(
                    f"tensor {name!r} is in both {self._taken[name].name} and {path.name}, and there is no index"
                )
            self._taken[name] = path
        return chosen

    def finish(self) -> None:
        """Raises :class:`LoadError` where the index promised a tensor that its file does not hold."""
        missing = [name for name in self.index or {} if name not in self._taken]
        if missing and self.index is not None:
            files = sorted({self.index[name] for name in missing})
            raise LoadError(f"the index assigns {_first(missing)} to {_first(files)}, but the file does not hold it")


def _first(names: list[str], shown: int = 3) -> str:
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")
