"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec


def write_json(path: Path, value: Any) -> None:
    """Replace ``path`` by JSON; a crash leaves the old content or the new, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(path.suffix + ".tmp")
    with draft.open("wb") as out:
        out.write(msgspec.json.encode(value))
        out.flush()
        os.fsync(out.fileno())
    os.replace(draft, path)
