"""What a worker process of this platform can do before it knows its plan: a second of imports."""

from __future__ import annotations

from importlib import import_module

from .environment import prepare_environment


def preload() -> None:
    """Set the environment and import torch and what computes with it. Raises what an import raises."""
    prepare_environment()
    import_module("sgl_cpu.kernels.worker")
