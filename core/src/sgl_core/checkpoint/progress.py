"""A progress sink for people: one redrawn line on a terminal, one line at start and end in a log file."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class TerminalProgress:
    """Callable as ``sink(what, done, total)``; counts from 10 MB on are taken for bytes and shown as such."""

    def __init__(self, stream: TextIO | None = None, *, width: int = 30, every_s: float = 0.1) -> None:
        self.stream = stream if stream is not None else sys.stderr
        self.width = width
        self.every_s = every_s
        self._what = ""
        self._drawn = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        finished = total > 0 and done >= total
        started = what != self._what
        now = time.monotonic()
        if self.stream.isatty():
            if finished or started or now - self._drawn >= self.every_s:
                self.stream.write("\r\x1b[K" + self._line(what, done, total) + ("\n" if finished else ""))
                self.stream.flush()
                self._drawn = now
        elif started or finished:
            self.stream.write(f"{what}: {'done' if finished else 'started'}{_of(total)}\n")
            self.stream.flush()
        self._what = "" if finished else what

    def _line(self, what: str, done: int, total: int) -> str:
        if total <= 0:
            return f"{what} {_count(done, done)}"
        filled = min(self.width, self.width * done // total)
        bar = "█" * filled + "·" * (self.width - filled)
        return f"{what} {bar} {100 * done // total:3d} % {_count(done, total)} of {_count(total, total)}"


def _of(total: int) -> str:
    return f" ({_count(total, total)})" if total > 0 else ""


def _count(value: int, scale: int) -> str:
    return f"{value / 1e6:.1f} MB" if scale >= 10_000_000 else str(value)
