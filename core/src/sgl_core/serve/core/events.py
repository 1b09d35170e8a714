"""The stream of events that a running request gives. A plain answer is this stream, joined (see answer.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(slots=True)
class TokenLogprob:
    """One token with its log-probability (None where there is none: the first prompt token).

    ``offset`` is where the token's text begins in the choice's text, in characters. ``top`` and ``wanted`` are
    (token id, logprob) pairs, best first and in the order asked.
    """

    token_id: int
    logprob: float | None
    offset: int
    top: list[tuple[int, float]] = field(default_factory=list)
    wanted: list[tuple[int, float]] = field(default_factory=list)


@dataclass(slots=True)
class Started:
    """The first output of a choice came. ``choice`` counts over all prompts: prompt * n + k."""

    choice: int
    prompt_tokens: int
    cached_tokens: int
    prompt_logprobs: list[TokenLogprob] | None = None


@dataclass(slots=True)
class Piece:
    """Something for the client, with the tokens generated since the last piece of this choice."""

    choice: int
    token_ids: list[int]
    logprobs: list[TokenLogprob]


@dataclass(slots=True)
class TextPiece(Piece):
    """Answer text."""

    text: str


@dataclass(slots=True)
class ReasoningPiece(Piece):
    """Thinking text."""

    text: str


@dataclass(slots=True)
class CallPiece(Piece):
    """A tool call begins (``name`` and ``call_id`` set) or its arguments go on (``arguments``)."""

    index: int
    name: str | None = None
    call_id: str | None = None
    arguments: str = ""


@dataclass(slots=True)
class Finished(Piece):
    """A choice ended; carries the tokens that no piece carried. Once per choice, last.

    ``reason`` is ``stop``, ``length`` or ``abort``; ``matched`` the stop string or token id; ``calls`` how many tool calls began.
    """

    reason: str
    matched: int | str | None
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    reasoning_tokens: int = 0
    embedding: list[float] | None = None


@dataclass(slots=True)
class Failed:
    """The run failed as a whole; nothing follows. ``message`` is fit for clients."""

    message: str
    status: int = 500
    code: str | None = None


Event: TypeAlias = Started | TextPiece | ReasoningPiece | CallPiece | Finished | Failed
