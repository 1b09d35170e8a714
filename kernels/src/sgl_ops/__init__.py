"""CPU kernels of sgl through a plain C library: everything takes data pointers, so no array library but numpy is needed.

``available()`` says whether the library is there and why not; nothing is loaded by the import itself.
"""

from __future__ import annotations

from . import attention, formats, fused, linear, sampling
from .library import Availability, OpsError, available, bf16_tiles, isa, load, set_threads, threads
from .tape import Tape

__all__ = [
    "Availability",
    "OpsError",
    "Tape",
    "attention",
    "available",
    "bf16_tiles",
    "formats",
    "fused",
    "isa",
    "linear",
    "load",
    "sampling",
    "set_threads",
    "threads",
]
__version__ = "0.1.0"
