"""Shared by the parser tests: joins events, and runs a parser over every kind of cut."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from sgl_core.api.parsers import (
    CallArguments,
    CallStart,
    OutputParser,
    ParseContext,
    ParseEvent,
    ReasoningDelta,
    TextDelta,
)


@dataclass
class Parsed:
    """The joined events of one answer."""

    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    ids: list[str | None] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)


def join(events: Iterable[ParseEvent]) -> Parsed:
    out = Parsed()
    for event in events:
        if isinstance(event, TextDelta):
            out.content += event.text
        elif isinstance(event, ReasoningDelta):
            out.reasoning += event.text
        elif isinstance(event, CallStart):
            assert event.index == len(out.raw)
            out.calls.append((event.name, None))
            out.ids.append(event.call_id)
            out.raw.append("")
        elif isinstance(event, CallArguments):
            assert event.index == len(out.raw) - 1
            out.raw[event.index] += event.text
    for i, text in enumerate(out.raw):
        try:
            out.calls[i] = (out.calls[i][0], json.loads(text))
        except ValueError:
            out.calls[i] = (out.calls[i][0], text)
    return out


def parse(parser: OutputParser, pieces: Iterable[str]) -> Parsed:
    events: list[ParseEvent] = []
    for piece in pieces:
        events += parser.feed(piece)
    return join(events + parser.finish())


def cuts(text: str) -> Iterable[list[str]]:
    for size in (1, 2, 3, 7):
        yield [text[i : i + size] for i in range(0, len(text), size)]
    for seed in range(6):
        rng = random.Random(seed)
        borders = sorted(rng.sample(range(len(text) + 1), min(len(text), rng.randint(1, 12))))
        yield [text[a:b] for a, b in zip([0, *borders], [*borders, len(text)], strict=True)]


@pytest.fixture(scope="session")
def parse_pieces():
    """Parse a text given in pieces."""
    return parse


@pytest.fixture(scope="session")
def every_cut():
    """Parse a text whole and in every cut; all must agree; returns the parse."""

    def run(factory: Any, text: str, context: ParseContext | None = None) -> Parsed:
        context = context or ParseContext()
        whole = parse(factory(context), [text])
        for pieces in cuts(text):
            assert parse(factory(context), pieces) == whole, pieces
        return whole

    return run
