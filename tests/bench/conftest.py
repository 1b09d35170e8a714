"""The benchmark is a set of scripts: its folder is put on the path, as Python does for a script."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
