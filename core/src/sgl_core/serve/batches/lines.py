"""The lines of a batch's input file: checked before anything runs, read one by one while it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgl_core.serve.core.validate import shown

MAX_LINES = 50_000
MAX_ERRORS = 100


@dataclass(frozen=True, slots=True)
class Line:
    """One request."""

    custom_id: str
    body: dict[str, Any]


def check(path: Path, endpoint: str) -> tuple[int, list[dict[str, Any]]]:
    """How many requests the file holds, and OpenAI's error objects of its faults. Reads the whole file; run it in a thread."""
    seen: dict[str, int] = {}
    errors: list[dict[str, Any]] = []
    for number, raw in _raw_lines(path):
        fault = _fault(raw, endpoint, seen, number)
        if fault is not None:
            errors.append(
                {"code": fault[0], "message": f"line {number}: {fault[1]}", "line": number, "param": fault[2]}
            )
        if len(errors) >= MAX_ERRORS:
            break
        if number > MAX_LINES:
            errors.append(_whole("too_many_requests", f"the file has more than {MAX_LINES} lines"))
            break
    if not errors and not seen:
        errors.append(_whole("empty_file", "the file holds no requests"))
    return len(seen), errors


def _whole(code: str, message: str) -> dict[str, Any]:
    return {"code": code, "message": message, "line": None, "param": None}


def _fault(raw: bytes, endpoint: str, seen: dict[str, int], number: int) -> tuple[str, str, str | None] | None:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return "invalid_json_line", "is not JSON", None
    if not isinstance(value, dict):
        return "invalid_json_line", "must be a JSON object", None
    key = value.get("custom_id")
    if not isinstance(key, str) or not key:
        return (
            "missing_required_parameter",
            f"custom_id must be a text that is not empty, not {shown(key)}",
            "custom_id",
        )
    if key in seen:
        return "duplicate_custom_id", f"custom_id {shown(key)} is that of line {seen[key]}", "custom_id"
    seen[key] = number
    if value.get("method", "POST") != "POST":
        return "invalid_method", f"method must be POST, not {shown(value['method'])}", "method"
    if value.get("url") != endpoint:
        return (
            "mismatched_endpoint",
            f"url must be {endpoint}, the batch's endpoint, not {shown(value.get('url'))}",
            "url",
        )
    if not isinstance(value.get("body"), dict):
        return "missing_required_parameter", "body must be an object", "body"
    return None


def read(path: Path) -> Iterator[Line]:
    """The requests of a checked file."""
    for _, raw in _raw_lines(path):
        value = json.loads(raw)
        yield Line(value["custom_id"], value["body"])


def _raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if raw.strip():
                yield number, raw


def finished(path: Path) -> set[str]:
    """The custom ids of a results file; half a line at its end, from a crash, is cut off."""
    found: set[str] = set()
    if not path.is_file():
        return found
    good = 0
    with path.open("r+b") as file:
        for raw in file:
            if not raw.endswith(b"\n"):
                break
            found.add(json.loads(raw)["custom_id"])
            good += len(raw)
        file.truncate(good)
    return found
