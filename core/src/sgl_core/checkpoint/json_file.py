"""Reading the small JSON files of a checkpoint with errors that name the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .files import CheckpointError


def read_json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file, or ``{}`` where the file does not exist. Raises :class:`CheckpointError`."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, OSError) as error:
        raise CheckpointError(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value
