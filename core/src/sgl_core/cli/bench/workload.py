"""The prompts and lengths of a load: random words, distinct or behind shared prefixes, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

_TEXT = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work government number night point home water room mother "
    "area money story fact month lot right study book eye job word business issue side kind head house service friend "
    "father power hour game line end member law car city community name president team minute idea kid body back"
)
_WORDS = _TEXT.split()
"""Common English words: one token each in most vocabularies, so a length in words is near the length in tokens."""


@dataclass(frozen=True, slots=True)
class Span:
    """A length or a range of lengths, both ends included, drawn evenly."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> Span:
        """``128`` or ``64:256``. Raises ValueError."""
        low, _, high = text.partition(":")
        span = cls(int(low), int(high or low))
        if not 0 <= span.low <= span.high:
            raise ValueError(f"{text!r} is not a length or a range LOW:HIGH")
        return span

    def draw(self, source: random.Random) -> int:
        return source.randint(self.low, self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """``prefixes`` texts of ``prefix`` words are shared evenly by the requests; 0 of them leaves all prompts distinct."""

    requests: int
    input: Span
    output: Span
    prefix: int = 0
    prefixes: int = 0
    seed: int = 0

    def items(self) -> Iterator[tuple[str, int]]:
        """(prompt, most new tokens) of each request."""
        source = random.Random(self.seed)
        shared = [words(source, self.prefix) for _ in range(self.prefixes)]
        for number in range(self.requests):
            own = words(source, max(self.input.draw(source), 1))
            prompt = f"{shared[number % len(shared)]} {own}" if shared else own
            yield prompt, max(self.output.draw(source), 1)


def words(source: random.Random, count: int) -> str:
    """``count`` random words."""
    return " ".join(source.choices(_WORDS, k=count))
