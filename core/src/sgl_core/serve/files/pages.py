"""Lists a page at a time, by OpenAI's query parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from sgl_core.serve.core.errors import refuse


def page(request: Request, found: Sequence[dict[str, Any]], *, default: int, most: int) -> dict[str, Any]:
    """The part of ``found`` (newest first unless ``order=asc``) after ``after``. Raises RequestError."""
    query = request.query_params
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise refuse("order", f"must be asc or desc, not {order!r}")
    rows = sorted(found, key=lambda row: str(row["id"]), reverse=order == "desc")
    after = query.get("after")
    if after:
        at = next((at for at, row in enumerate(rows) if row["id"] == after), None)
        if at is None:
            raise refuse("after", f"there is no {after!r}")
        rows = rows[at + 1 :]
    given = query.get("limit")
    if given is not None and not (given.isdecimal() and len(given) < 8 and 1 <= int(given) <= most):
        raise refuse("limit", f"must be an integer from 1 to {most}")
    limit = default if given is None else int(given)
    data = rows[:limit]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": len(rows) > limit,
    }
