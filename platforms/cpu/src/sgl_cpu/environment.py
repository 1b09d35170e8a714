"""Environment variables that thread pools and MKL read once, when they are loaded: set before torch is imported."""

from __future__ import annotations

import os

DEFAULTS = {
    # Waiting threads sleep. Spinning ones starve whoever wants their core, and with a busy neighbour each parallel region then
    # waits for a thread that is not running: measured at 380 ms against 36 ms for 60 small products on 2 loaded cores.
    "OMP_WAIT_POLICY": "PASSIVE",
    # Each element of a product is computed the same way for every shape (see sgl_torch.exactness).
    "MKL_CBWR": "AUTO,STRICT",
}


def prepare_environment() -> None:
    """Set what is not set; a value that is already there is the user's and stays. Must come before ``import torch``."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
