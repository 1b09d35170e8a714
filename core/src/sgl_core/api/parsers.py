"""Contracts of the output parsers (registries ``tool_parsers`` and ``reasoning_parsers``), which run in the front process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Answer text for the client."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """Thinking text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A tool call begins; ``index`` counts calls from 0. ``call_id`` is set where the model's own syntax carries an id."""

    index: int
    name: str
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A piece of a call's arguments; the pieces joined are one JSON object as text."""

    index: int
    text: str


ParseEvent: TypeAlias = TextDelta | ReasoningDelta | CallStart | CallArguments


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseContext:
    """What a parser knows of the request. ``tools`` are OpenAI tool objects; ``prompt_tail`` is the end of the rendered prompt.

    ``constrained`` says that a grammar governs the content; ``thinking`` is true or false where request or template decide it, else None.
    """

    tools: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    prompt_tail: str = ""
    constrained: bool = False
    thinking: bool | None = None
    separate_reasoning: bool = True
    parse_tools: bool = True


class OutputParser(Protocol):
    """Incremental: any cut of the text into deltas gives the same joined events. Never raises on model output."""

    def feed(self, delta: str) -> list[ParseEvent]: ...

    def finish(self) -> list[ParseEvent]:
        """The end of the text: held text comes out, malformed calls as text."""
        ...


class ToolParserFactory(Protocol):
    """Target of a ``tool_parsers`` entry. ``structure`` serves tool_choice required/named by grammar (None: not supported)."""

    def __call__(self, context: ParseContext) -> OutputParser: ...


class ReasoningParserFactory(Protocol):
    """Target of a ``reasoning_parsers`` entry."""

    def __call__(self, context: ParseContext) -> OutputParser: ...
