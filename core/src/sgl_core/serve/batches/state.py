"""Batch objects, one JSON file each, and the results of those that are not finished."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.files.atomic import write_json
from sgl_core.serve.files.store import new_id

WINDOW = 24 * 3600
OPEN = frozenset({"validating", "in_progress", "finalizing", "cancelling"})
_ID = re.compile(r"batch_[0-9a-f]{32}")


class BatchStates:
    """The batches under ``folder``; what a former run of the server left there goes on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, dict[str, Any]] | None = None

    @property
    def _batches(self) -> dict[str, dict[str, Any]]:
        if self._known is None:
            paths = sorted(self.folder.glob("batch_*.json"))
            self._known = {p.stem: msgspec.json.decode(p.read_bytes()) for p in paths if _ID.fullmatch(p.stem)}
        return self._known

    def list(self) -> list[dict[str, Any]]:
        """All batch objects, oldest first."""
        return list(self._batches.values())

    def get(self, key: str) -> dict[str, Any]:
        """A batch object. Raises RequestError (404)."""
        found = self._batches.get(key)
        if found is None:
            raise RequestError(
                f"batch_id: there is no batch {key!r}", param="batch_id", status=404, code="batch_not_found"
            )
        return found

    def new(self, endpoint: str, input_file_id: str, metadata: Mapping[str, str] | None) -> dict[str, Any]:
        """A batch in its first state, stored."""
        now = int(time.time())
        batch: dict[str, Any] = {
            "id": new_id("batch_"),
            "object": "batch",
            "endpoint": endpoint,
            "errors": None,
            "input_file_id": input_file_id,
            "completion_window": "24h",
            "status": "validating",
            "output_file_id": None,
            "error_file_id": None,
            "created_at": now,
            "in_progress_at": None,
            "expires_at": now + WINDOW,
            "finalizing_at": None,
            "completed_at": None,
            "failed_at": None,
            "expired_at": None,
            "cancelling_at": None,
            "cancelled_at": None,
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
            "metadata": dict(metadata) if metadata else None,
        }
        self._batches[batch["id"]] = batch
        self.save(batch)
        return batch

    def become(self, batch: dict[str, Any], status: str) -> None:
        """A new status with its time, stored."""
        batch["status"] = status
        if f"{status}_at" in batch:
            batch[f"{status}_at"] = int(time.time())
        self.save(batch)

    def save(self, batch: dict[str, Any]) -> None:
        write_json(self.folder / f"{batch['id']}.json", batch)

    def results(self, batch: Mapping[str, Any], what: str) -> Path:
        """Where results gather until the batch ends; ``what`` is output or error."""
        return self.folder / f"{batch['id']}.{what}.jsonl"
