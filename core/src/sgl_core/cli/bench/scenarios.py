"""The named loads of ``sgl bench compare``, as data, and the conversations each of them makes from a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .workload import words

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 24},
        "year": {"type": "integer", "minimum": 1900, "maximum": 2100},
        "kind": {"type": "string", "enum": ["novel", "poem", "essay", "play"]},
        "in_print": {"type": "boolean"},
        "themes": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 1, "maxItems": 3},
    },
    "required": ["title", "year", "kind", "in_print", "themes"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """``chats`` conversations of ``turns`` questions each, ``at_once`` under way at any time; every answer has exactly
    ``output`` tokens, or at most that many where a ``schema`` binds it.

    Lengths of ``system`` and ``user`` are in words (near one token each); a chat template adds about a dozen tokens.
    ``shows`` names figures (see ``figures.py``), the one that decides first. ``quick`` holds what a short trial changes.
    """

    name: str
    summary: str
    chats: int
    at_once: int
    system: int
    user: int
    output: int
    turns: int = 1
    same_system: bool = False
    schema: Mapping[str, Any] | None = None
    shows: tuple[str, ...]
    quick: Mapping[str, Any] = field(default_factory=dict)

    def shortened(self) -> Scenario:
        """The scenario of a short trial: the same shape, less of it."""
        return replace(self, summary=f"{self.summary}; shortened", **self.quick) if self.quick else self


@dataclass(frozen=True, slots=True)
class Conversation:
    """A system message and the questions asked one after the other."""

    system: str
    questions: tuple[str, ...]


SCENARIOS = (
    Scenario(
        name="decode1",
        summary="1 stream, ~32 tokens in, 256 out",
        chats=1,
        at_once=1,
        system=3,
        user=16,
        output=256,
        shows=("decode_tokens_per_s", "ttft_p50_ms"),
        quick={"output": 96},
    ),
    Scenario(
        name="prefill",
        summary="1 request, ~1,500 tokens in, 1 out",
        chats=1,
        at_once=1,
        system=4,
        user=1484,
        output=1,
        shows=("prompt_tokens_per_s", "ttft_p50_ms"),
    ),
    Scenario(
        name="batch16",
        summary="16 streams, ~64 tokens in, 128 out",
        chats=16,
        at_once=16,
        system=3,
        user=48,
        output=128,
        shows=("output_tokens_per_s", "ttft_p50_ms", "ttft_p99_ms", "itl_p99_ms"),
        quick={"output": 32},
    ),
    Scenario(
        name="batch64",
        summary="64 streams, ~64 tokens in, 128 out",
        chats=64,
        at_once=64,
        system=3,
        user=48,
        output=128,
        shows=("output_tokens_per_s", "ttft_p50_ms", "ttft_p99_ms", "itl_p99_ms"),
        quick={"output": 16},
    ),
    Scenario(
        name="shared_prefix",
        summary="64 requests, one ~1,500-token prefix, 20 own, 32 out, 8 at a time",
        chats=64,
        at_once=8,
        system=1490,
        same_system=True,
        user=20,
        output=32,
        shows=("requests_per_s", "ttft_p50_ms", "ttft_p99_ms", "cached_tokens"),
        quick={"chats": 16, "output": 16},
    ),
    Scenario(
        name="multi_turn",
        summary="8 chats of 6 turns side by side, history resent, 40 own, 64 out",
        chats=8,
        at_once=8,
        turns=6,
        system=24,
        user=40,
        output=64,
        shows=("requests_per_s", "ttft_p50_ms", "ttft_p99_ms", "cached_tokens"),
        quick={"chats": 4, "at_once": 4, "turns": 3, "output": 24},
    ),
    Scenario(
        name="json",
        summary="16 answers bound to a JSON schema, 4 at a time",
        chats=16,
        at_once=4,
        system=6,
        user=12,
        output=192,
        schema=SCHEMA,
        shows=("output_tokens_per_s", "requests_per_s", "ttft_p50_ms", "valid"),
        quick={"chats": 4},
    ),
)


def named(text: str) -> tuple[Scenario, ...]:
    """``all`` or a comma list of names, in the order given. Raises ValueError naming one that does not exist."""
    known = {scenario.name: scenario for scenario in SCENARIOS}
    if text == "all":
        return SCENARIOS
    wanted = [name.strip() for name in text.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            raise ValueError(f"there is no scenario {name!r}; choose from {', '.join(known)}, or all")
    if not wanted:
        raise ValueError(f"no scenario is named; choose from {', '.join(known)}, or all")
    return tuple(known[name] for name in wanted)


def conversations(scenario: Scenario, seed: str) -> list[Conversation]:
    """What is asked: the same for the same seed, so that every server of a round gets the same load."""
    source = random.Random(f"{scenario.name}/{seed}")
    shared = words(source, scenario.system)
    return [
        Conversation(
            shared if scenario.same_system else words(source, scenario.system),
            tuple(_question(scenario, source) for _ in range(scenario.turns)),
        )
        for _ in range(scenario.chats)
    ]


def _question(scenario: Scenario, source: random.Random) -> str:
    own = words(source, scenario.user)
    if scenario.schema is None:
        return own
    names = ", ".join(scenario.schema["properties"])
    return f"Describe a book about {own} as JSON with {names}."
