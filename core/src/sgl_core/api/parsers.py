"""Contracts of the output parsers (registries ``tool_parsers`` and ``reasoning_parsers``), which run in the front process."""

from __future__ import annotations

import re
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSyntax:
    """How a model family writes calls, so that a grammar can hold an answer to it (tool_choice, strict tools).

    A call is ``begin`` (with ``{name}`` and ``{index}`` filled in), the arguments and ``end``. Calls stand between ``section_begin`` and
    ``section_end``, divided by ``separator``. ``arguments`` says how the arguments are written: ``json`` (an object), ``parameter_tags``
    (each as ``parameter_begin`` with ``{key}``, the value, ``parameter_end``) or ``none`` when a grammar cannot express the family.
    """

    begin: str
    end: str
    arguments: str = "json"
    section_begin: str = ""
    section_end: str = ""
    separator: str = ""
    parameter_begin: str = ""
    parameter_end: str = ""

    @property
    def marker(self) -> str:
        """What tells that a call begins among text: the section's opening, or a bracketed marker at the front of a call; empty if neither."""
        bracketed = re.match(r"<[^>]+>|\[[^\]]+\]", self.section_begin or self.begin)
        return (self.section_begin or bracketed.group()) if bracketed else ""


class ToolParserFactory(Protocol):
    """Target of a ``tool_parsers`` entry. ``call_syntax`` serves tool_choice required/named by grammar (None: not supported)."""

    call_syntax: CallSyntax | None

    def __call__(self, context: ParseContext) -> OutputParser: ...


class ReasoningParserFactory(Protocol):
    """Target of a ``reasoning_parsers`` entry.

    ``reasoning_begin`` and ``reasoning_end`` are the markers around thinking as text; an empty begin means that the model cannot open it itself.
    A factory may have ``excluded``, the texts that must not come while the model thinks; ``--enable-strict-thinking`` needs it.
    """

    reasoning_begin: str
    reasoning_end: str

    def thinks(self, context: ParseContext) -> bool | None:
        """Whether the answer begins inside the thinking; None where the model decides by its first token. Callable on the target itself."""
        ...

    def __call__(self, context: ParseContext) -> OutputParser: ...
