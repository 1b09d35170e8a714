"""Source: the model's text as it arrives, read by generators that wait for more and can rewind.

A reader is a generator that yields whenever it needs text that has not come yet. What it decides depends on the text
alone, never on where the text was cut into deltas; that is what makes a stream equal to the whole parse.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Wait: TypeAlias = Generator[None, None, T]
Emit: TypeAlias = Callable[[str], None]

_KEEP = 8192
"""Consumed characters that may pile up before they are cut off."""


class Malformed(Exception):
    """The text is not what the reader's syntax asks for. Never leaves the parser: the text becomes content."""


class Source:
    """Text that grows. ``pos`` is the reading position in ``text``; ``ended`` says that no more will come."""

    def __init__(self) -> None:
        self.text = ""
        self.pos = 0
        self.ended = False
        self._marks = 0

    def push(self, delta: str) -> None:
        """Append text that has arrived."""
        if self.pos > _KEEP and not self._marks:
            self.text = self.text[self.pos :]
            self.pos = 0
        self.text += delta

    def mark(self) -> int:
        """Remember the position; release it by :meth:`release`. Marks nest."""
        self._marks += 1
        return self.pos

    def release(self, mark: int, *, rewind: bool = False) -> None:
        """Forget a mark and, with ``rewind``, read on from it."""
        self._marks -= 1
        if rewind:
            self.pos = mark

    def need(self, count: int) -> Wait[bool]:
        """Wait for ``count`` unread characters; false if the text ends before."""
        while len(self.text) - self.pos < count:
            if self.ended:
                return False
            yield
        return True

    def peek(self) -> Wait[str]:
        """The next character, unread; empty at the end of the text."""
        return self.text[self.pos] if (yield from self.need(1)) else ""

    def at(self, options: Iterable[str], offset: int = 0) -> Wait[str]:
        """Which of the strings stands at the position (the longest), unread; empty if none."""
        options = tuple(options)
        while True:
            rest = self.text[self.pos + offset : self.pos + offset + max(map(len, options))]
            undecided = not self.ended and any(len(o) > len(rest) and o.startswith(rest) for o in options)
            if not undecided:
                return max((o for o in options if rest.startswith(o)), key=len, default="")
            yield

    def accept(self, *options: str) -> Wait[str]:
        """Consume one of the strings if it stands here; returns it, or empty."""
        found = yield from self.at(options)
        self.pos += len(found)
        return found

    def expect(self, *options: str) -> Wait[str]:
        """Consume one of the strings or raise :class:`Malformed`."""
        found = yield from self.accept(*options)
        if not found:
            raise Malformed(f"expected {' or '.join(options)}")
        return found

    def spaces(self) -> Wait[str]:
        """Consume white space; returns it."""
        start = self.pos
        while (yield from self.need(1)) and self.text[self.pos].isspace():
            self.pos += 1
        return self.text[start : self.pos]

    def after_spaces(self, options: Iterable[str]) -> Wait[str]:
        """Which of the strings follows optional white space, all unread; ``"$"`` when the text ends there, empty if none."""
        offset = 0
        while True:
            if not (yield from self.need(offset + 1)):
                return "$"
            if not self.text[self.pos + offset].isspace():
                return (yield from self.at(options, offset))
            offset += 1

    def until(self, markers: Iterable[str], emit: Emit) -> Wait[str]:
        """Emit text up to the earliest marker, consume the marker and return it; empty at the end of the text.

        Text is emitted as soon as it cannot be part of a marker any more.
        """
        markers = tuple(markers)
        while True:
            found = self._first(markers)
            if found:
                start, marker = found
                undecided = not self.ended and any(
                    len(m) > len(self.text) - start and m.startswith(self.text[start:]) for m in markers
                )
                self._pass(start, emit)
                if not undecided:
                    self.pos += len(marker)
                    return marker
            else:
                self._pass(len(self.text) - (0 if self.ended else self._held(markers)), emit)
                if self.ended:
                    return ""
            yield

    def _pass(self, end: int, emit: Emit) -> None:
        if end > self.pos:
            emit(self.text[self.pos : end])
            self.pos = end

    def _first(self, markers: tuple[str, ...]) -> tuple[int, str] | None:
        best: tuple[int, int, str] | None = None
        for marker in markers:
            at = self.text.find(marker, self.pos)
            if at >= 0 and (best is None or (at, -len(marker)) < best[:2]):
                best = (at, -len(marker), marker)
        return (best[0], best[2]) if best else None

    def _held(self, markers: tuple[str, ...]) -> int:
        """How many characters at the end may be the beginning of a marker."""
        longest = min(max(map(len, markers)) - 1, len(self.text) - self.pos)
        for size in range(longest, 0, -1):
            tail = self.text[-size:]
            if any(m.startswith(tail) for m in markers):
                return size
        return 0
