"""Answers: the events of a run, joined. Plain (not streamed) answers of every API are made from these."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from .errors import RequestError
from .events import CallPiece, Event, Failed, Finished, ReasoningPiece, Started, TextPiece, TokenLogprob
from .run import Run


@dataclass(slots=True)
class Call:
    """One tool call; ``arguments`` is JSON as text."""

    name: str
    call_id: str
    arguments: str = ""


@dataclass(slots=True)
class Answer:
    """One choice, complete."""

    index: int
    text: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprob] | None = None
    cached_tokens: int = 0
    finished: Finished | None = None

    @property
    def end(self) -> Finished:
        """How it ended. Raises RequestError for a choice that has no end (a fault of ours)."""
        if self.finished is None:
            raise RequestError("the answer has no end", status=500)
        return self.finished

    def add(self, event: Event) -> None:
        """Join one event of this choice."""
        if isinstance(event, Started):
            self.prompt_logprobs, self.cached_tokens = event.prompt_logprobs, event.cached_tokens
            return
        if isinstance(event, Failed):
            raise RequestError(event.message, status=event.status, code=event.code)
        self.token_ids += event.token_ids
        self.logprobs += event.logprobs
        if isinstance(event, TextPiece):
            self.text += event.text
        elif isinstance(event, ReasoningPiece):
            self.reasoning += event.text
        elif isinstance(event, CallPiece):
            if event.name is not None:
                self.calls.append(Call(event.name, event.call_id or new_call_id()))
            if event.arguments:
                self.calls[event.index].arguments += event.arguments
        else:
            self.finished = event

    @property
    def mean_logprob(self) -> float:
        """Mean log-probability of the generated tokens, by which best_of ranks."""
        values = [entry.logprob for entry in self.logprobs if entry.logprob is not None]
        return sum(values) / len(values) if values else 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one API call. A prompt counts once, however many choices it has."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    reasoning_tokens: int = 0

    @classmethod
    def of(cls, ends: Sequence[Finished], n: int) -> Usage:
        """Usage of finished choices, ``n`` per prompt, in order of choice.

        A prompt's own choices reuse each other's pages; that is no cache hit, so the choice with the fewest cached tokens counts.
        """
        prompts = [ends[at : at + n] for at in range(0, len(ends), n)]
        return cls(
            prompt_tokens=sum(group[0].prompt_tokens for group in prompts),
            completion_tokens=sum(end.completion_tokens for end in ends),
            cached_tokens=sum(min(end.cached_tokens for end in group) for group in prompts),
            reasoning_tokens=sum(end.reasoning_tokens for end in ends),
        )


async def collect(run: Run) -> list[Answer]:
    """All answers of a run. Raises RequestError where the run failed."""
    answers = [Answer(choice.index) for choice in run.choices]
    async for batch in run.batches():
        for event in batch:
            if isinstance(event, Failed):
                raise RequestError(event.message, status=event.status, code=event.code)
            answers[event.choice].add(event)
    return answers


def new_call_id() -> str:
    """A tool-call id as OpenAI writes them."""
    return "call_" + uuid.uuid4().hex[:24]
