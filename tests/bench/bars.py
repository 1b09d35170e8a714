"""What was measured against what is wanted: one row each, a printed table, and whether any bar of ours failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """``ok`` is None where nothing is wanted of the figure, or where it could not be measured (the note says why)."""

    what: str
    value: str
    wanted: str = ""
    ok: bool | None = None
    note: str = ""


def at_least(what: str, value: float, wanted: float, form: str = "{:,.0f}", note: str = "") -> Row:
    """A figure of which more is better. ``form`` formats both numbers."""
    return Row(what, form.format(value), ">= " + form.format(wanted), value >= wanted, note)


def at_most(what: str, value: float, wanted: float, form: str = "{:,.0f}", note: str = "") -> Row:
    """A figure of which less is better."""
    return Row(what, form.format(value), "<= " + form.format(wanted), value <= wanted, note)


def told(what: str, value: str, note: str = "") -> Row:
    """A figure without a bar."""
    return Row(what, value, note=note)


def missing(what: str, why: str) -> Row:
    """Something that could not be measured; only the last line of a long reason is kept."""
    lines = [line for line in why.strip().splitlines() if line.strip()] or ["no reason given"]
    return Row(what, "not measured", note=lines[-1].strip()[:160])


def failed(rows: Sequence[Row]) -> list[Row]:
    """The rows below their bars."""
    return [row for row in rows if row.ok is False]


def table(rows: Sequence[Row], *, markdown: bool = False) -> str:
    """The rows for a terminal, or as a table of a page of the docs."""
    words = {True: "ok", False: "BELOW", None: ""}
    cells = [("what", "measured", "wanted", "", "note")]
    cells += [(row.what, row.value, row.wanted, words[row.ok], row.note) for row in rows]
    if markdown:
        head, *rest = ["| " + " | ".join(line) + " |" for line in cells]
        return "\n".join([head, "|---|---|---|---|---|", *rest])
    widths = [max(len(line[place]) for line in cells) for place in range(4)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(line[:4], widths, strict=True)), line[4]]).rstrip()
        for line in cells
    )
