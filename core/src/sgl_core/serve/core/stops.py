"""Stop strings and stop patterns over a text that arrives in pieces: only text that may still become a stop is held.

The result does not depend on how the text is cut: the stop that is complete first ends it (of several, the longest).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .errors import RequestError, refuse

PATTERN_SECONDS = 0.05
"""Time one search of a client's pattern may take; a pattern that needs more fails its request."""


@dataclass(slots=True)
class StopHit:
    """``text`` is the certain text before the stop, ``matched`` the stop string or pattern, ``stop_text`` what it matched."""

    text: str
    matched: str
    stop_text: str


class _Word:
    """A Knuth-Morris-Pratt automaton for one stop string; ``state`` is how many of its characters the text ends with."""

    __slots__ = ("fail", "state", "word")

    def __init__(self, word: str) -> None:
        self.word = word
        self.state = 0
        self.fail = [0] * len(word)
        k = 0
        for i in range(1, len(word)):
            while k and word[i] != word[k]:
                k = self.fail[k - 1]
            if word[i] == word[k]:
                k += 1
            self.fail[i] = k

    def step(self, char: str) -> bool:
        word, state = self.word, self.state
        while state and word[state] != char:
            state = self.fail[state - 1]
        self.state = state + 1 if word[state] == char else 0
        return self.state == len(word)


class StopStrings:
    """Matches plain stop strings."""

    __slots__ = ("_first", "_held", "_words")

    def __init__(self, stops: Sequence[str]) -> None:
        self._words = [_Word(stop) for stop in stops]
        self._first = frozenset(stop[0] for stop in stops)
        self._held = ""

    def feed(self, text: str) -> str | StopHit:
        """The text that is certain now, or the hit."""
        if not self._held and self._first.isdisjoint(text):
            return text
        held = self._held + text
        begin = len(self._held)
        for at in range(begin, len(held)):
            char = held[at]
            hits = [word.word for word in self._words if word.step(char)]
            if hits:
                matched = max(hits, key=len)
                return StopHit(held[: at + 1 - len(matched)], matched, matched)
        keep = max(word.state for word in self._words)
        cut = len(held) - keep
        self._held = held[cut:]
        return held[:cut]

    def finish(self) -> str:
        """The held text, at the end of the output."""
        held, self._held = self._held, ""
        return held


class StopPatterns:
    """Matches stop patterns by partial matching: what a pattern may still match from is held."""

    __slots__ = ("_patterns", "_sent", "_text")

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [(pattern, compile_pattern(pattern)) for pattern in patterns]
        self._text = ""
        self._sent = 0

    def feed(self, text: str) -> str | StopHit:
        self._text += text
        keep = len(self._text)
        best: tuple[int, str, str] | None = None
        for name, pattern in self._patterns:
            try:
                match = pattern.search(self._text, self._sent, partial=True, timeout=PATTERN_SECONDS)
            except TimeoutError:
                raise RequestError(
                    f"stop_regex: pattern {name!r} takes too long on this text", param="stop_regex"
                ) from None
            if match is None:
                continue
            if match.partial:
                keep = min(keep, match.start())
            elif match.group() and (best is None or match.start() < best[0]):
                best = (match.start(), name, match.group())
        if best is not None:
            start, name, stop_text = best
            return StopHit(self._text[self._sent : start], name, stop_text)
        certain = self._text[self._sent : keep]
        self._sent = keep
        return certain

    def finish(self) -> str:
        rest = self._text[self._sent :]
        self._sent = len(self._text)
        return rest


class Stops:
    """Stop strings first, then patterns, on one text."""

    __slots__ = ("_patterns", "_strings")

    def __init__(self, strings: Sequence[str], patterns: Sequence[str]) -> None:
        self._strings = StopStrings(strings) if strings else None
        self._patterns = StopPatterns(patterns) if patterns else None

    def feed(self, text: str) -> str | StopHit:
        """The text that is certain now, or the hit. Feed nothing more after a hit."""
        hit: StopHit | None = None
        if self._strings is not None:
            certain = self._strings.feed(text)
            if isinstance(certain, StopHit):
                hit, text = certain, certain.text
            else:
                text = certain
        if self._patterns is None:
            return hit or text
        result = self._patterns.feed(text)
        if isinstance(result, StopHit) or hit is None:
            return result
        hit.text = result + self._patterns.finish()
        return hit

    def finish(self) -> str | StopHit:
        """The held text at the end of the output; a pattern may still find its match in it."""
        rest = self._strings.finish() if self._strings is not None else ""
        if self._patterns is None:
            return rest
        result = self._patterns.feed(rest)
        return result if isinstance(result, StopHit) else result + self._patterns.finish()


def compile_pattern(pattern: str) -> Any:
    """A compiled pattern. Raises RequestError naming what is wrong with it."""
    import regex  # type: ignore[import-untyped]  # costs 20 ms; most servers never see a pattern

    try:
        compiled = regex.compile(pattern)
        empty = compiled.search("", timeout=PATTERN_SECONDS)
    except (regex.error, TimeoutError, RecursionError) as error:
        raise refuse("stop_regex", f"{pattern!r} is not a pattern: {error}") from None
    if empty is not None:
        raise refuse("stop_regex", f"{pattern!r} matches the empty string and would end every answer at once")
    return compiled
