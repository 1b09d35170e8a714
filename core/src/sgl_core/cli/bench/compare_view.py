"""The result of ``sgl bench compare`` for people: a block of lines for each scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .figures import FIGURES


def page(result: Mapping[str, Any]) -> str:
    """Everything that was measured, and what makes it doubtful."""
    machine = result["machine"]
    lines = [
        f"{machine['processor']}, {machine['cores']} cores, load {machine['load']} before and {machine['load_after']} after",
        *(f"note: {note}" for note in result["notes"]),
    ]
    for name, part in result["scenarios"].items():
        lines += ["", f"{name}: {part['summary']} (median of {result['rounds']})", *block(part)]
    return "\n".join(lines)


def block(part: Mapping[str, Any]) -> list[str]:
    """The lines of one scenario: a row for each server, then the ratios of the first to the others."""
    names = list(part["medians"])
    shown = [figure for figure in part["shows"] if any(figure in part["medians"][name] for name in names)]
    if any("rss_mb" in part["medians"][name] for name in names):
        shown.append("rss_mb")
    rows: list[tuple[str, list[str]]] = []
    for name in names:
        values = [number(part["medians"][name].get(figure)) for figure in shown]
        rows.append((name, [*values, spread(part["runs"][name], part["shows"][0])]))
    for name, found in part["ratios"].items():
        values = [f"{found[figure]:.2f}x" if figure in found else "" for figure in shown]
        rows.append((f"{names[0]} / {name}", [*values, ""]))
    titles = [*(FIGURES[figure].title for figure in shown), "runs"]
    return [*table(titles, rows), *(f"  ! {doubt}" for doubt in doubts(part))]


def table(titles: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Columns as wide as they need to be, the last one to the left."""
    wide = max((len(name) for name, _ in rows), default=0)
    widths = [max(len(title), *(len(row[place]) for _, row in rows)) for place, title in enumerate(titles)]

    def line(name: str, cells: Sequence[str]) -> str:
        padded = [cell.rjust(width) for cell, width in zip(cells[:-1], widths[:-1], strict=True)]
        return "  ".join(["", name.ljust(wide), *padded, cells[-1]]).rstrip()

    return [line("", titles), *(line(name, row) for name, row in rows)]


def number(value: float | None) -> str:
    """Three digits that matter, and all digits before the point."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(runs: Sequence[Mapping[str, float]], figure: str) -> str:
    """The leading figure of each run."""
    return " ".join(number(run.get(figure)) for run in runs)


def doubts(part: Mapping[str, Any]) -> list[str]:
    """What a reader must know before believing a row: errors, unequal lengths, busy neighbours."""
    out = []
    for name, middle in part["medians"].items():
        for message, count in part["errors"].get(name, {}).items():
            out.append(f"{name}: {count} failed: {message}")
        wanted = part["output_tokens_wanted"]
        if wanted and middle.get("output_tokens") and not middle.get("failed") and middle["output_tokens"] != wanted:
            out.append(f"{name}: {middle['output_tokens']:.0f} tokens came instead of {wanted}: lengths are not equal")
        if middle.get("others_share", 0.0) > 0.1:
            out.append(f"{name}: others used {middle['others_share']:.0%} of the machine meanwhile")
    return out
