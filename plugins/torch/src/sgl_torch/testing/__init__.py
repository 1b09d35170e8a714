"""For tests of models, attention backends and ops: tiny checkpoints and a driver that plays scheduler by hand."""

from .driver import Driver, Sequence
from .loading import load_folder

__all__ = ["Driver", "Sequence", "load_folder"]
