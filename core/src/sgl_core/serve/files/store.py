"""The folder of files: one ``.data`` and one ``.json`` each, under ids that sort by age."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from sgl_core.serve.core.errors import RequestError

from .atomic import write_json

MAX_FILES = 10_000
_ID = re.compile(r"file-[0-9a-f]{32}")


def new_id(prefix: str) -> str:
    """An id that sorts by time and cannot be guessed."""
    return f"{prefix}{time.time_ns():016x}{secrets.token_hex(8)}"


class FileStore:
    """Files under ``folder``, which is made when the first comes. What lies there already is served again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, dict[str, Any]] | None = None

    @property
    def _files(self) -> dict[str, dict[str, Any]]:
        if self._known is None:
            self._known = {}
            for path in sorted(self.folder.glob("file-*.json")):
                if _ID.fullmatch(path.stem) and path.with_suffix(".data").is_file():
                    self._known[path.stem] = msgspec.json.decode(path.read_bytes())
        return self._known

    def path(self, key: str) -> Path:
        """Where the content lies. Raises RequestError (404)."""
        self.get(key)
        return self.folder / f"{key}.data"

    def get(self, key: str, param: str = "file_id") -> dict[str, Any]:
        """The file object. Raises RequestError (404) where there is none."""
        found = self._files.get(key)
        if found is None:
            raise RequestError(f"{param}: there is no file {key!r}", param=param, status=404, code="file_not_found")
        return found

    def list(self) -> list[dict[str, Any]]:
        """All file objects, oldest first."""
        return list(self._files.values())

    def add(self, content: BinaryIO, filename: str, purpose: str) -> dict[str, Any]:
        """Keep a copy of ``content``; may be run in a thread."""
        self._check_room()
        key = new_id("file-")
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f"{key}.tmp"
        try:
            with draft.open("wb") as out:
                shutil.copyfileobj(content, out)
                out.flush()
                os.fsync(out.fileno())
            return self._keep(key, draft, filename, purpose)
        finally:
            draft.unlink(missing_ok=True)

    def adopt(self, key: str, path: Path, filename: str, purpose: str) -> dict[str, Any]:
        """Take over a file of ours under an id that was promised. Does nothing where it is there already."""
        if key in self._files:
            return self._files[key]
        self.folder.mkdir(parents=True, exist_ok=True)
        return self._keep(key, path, filename, purpose)

    def _keep(self, key: str, path: Path, filename: str, purpose: str) -> dict[str, Any]:
        meta = {
            "id": key,
            "object": "file",
            "bytes": path.stat().st_size,
            "created_at": int(time.time()),
            "expires_at": None,
            "filename": filename,
            "purpose": purpose,
            "status": "processed",
            "status_details": None,
        }
        write_json(self.folder / f"{key}.json", meta)
        os.replace(path, self.folder / f"{key}.data")  # last: a file counts once both are there
        self._files[key] = meta
        return meta

    def _check_room(self) -> None:
        if len(self._files) >= MAX_FILES:
            raise RequestError(f"{MAX_FILES} files are stored; delete some", status=400, code="too_many_files")

    def delete(self, key: str) -> None:
        """Forget a file. Raises RequestError (404)."""
        self.get(key)
        (self.folder / f"{key}.json").unlink(missing_ok=True)
        (self.folder / f"{key}.data").unlink(missing_ok=True)
        del self._files[key]
