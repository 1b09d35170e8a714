"""Builds the library once if it is not there, so that the tests run from a fresh checkout."""

from __future__ import annotations

from sgl_ops.build import build
from sgl_ops.library import source_dir

if source_dir() is not None:
    build(quiet=True)
