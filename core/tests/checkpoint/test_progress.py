"""The progress line on a terminal and in a log."""

from __future__ import annotations

import io

from sgl_core.checkpoint.progress import TerminalProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_redraws_one_line() -> None:
    stream = Terminal()
    sink = TerminalProgress(stream, width=10, every_s=3600)
    for done in (0, 50_000_000, 99_000_000, 100_000_000):
        sink("downloading x", done, 100_000_000)
    frames = stream.getvalue().split("\r\x1b[K")[1:]
    assert len(frames) == 2  # the first and the last; those between came too soon
    assert frames[0] == "downloading x ··········   0 % 0.0 MB of 100.0 MB"
    assert frames[1] == "downloading x ██████████ 100 % 100.0 MB of 100.0 MB\n"


def test_log_has_two_lines_each() -> None:
    stream = io.StringIO()
    sink = TerminalProgress(stream)
    for what in ("a", "b"):
        for done in range(4):
            sink(what, done, 3)
    assert stream.getvalue().splitlines() == ["a: started (3)", "a: done (3)", "b: started (3)", "b: done (3)"]
    sink("unknown size", 5, 0)
    assert stream.getvalue().endswith("unknown size: started\n")
