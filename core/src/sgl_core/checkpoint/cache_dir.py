"""Where downloaded models are kept: ``SGL_CACHE_DIR``, else the user's cache folder of this platform."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache_dir() -> Path:
    """The cache folder (not necessarily existing yet)."""
    chosen = os.environ.get("SGL_CACHE_DIR")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("sgl"))
