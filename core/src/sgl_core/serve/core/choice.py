"""Choice: one sequence being generated, from the worker's outputs to events: detokenize, stop strings, parsers, logprobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sgl_core.api.parsers import CallArguments, CallStart, ParseEvent, ReasoningDelta, TextDelta
from sgl_core.engine.messages import Logprobs, Output

from .detokenize import DetokenizerFactory
from .events import CallPiece, Event, Failed, Finished, ReasoningPiece, Started, TextPiece, TokenLogprob
from .parsing import ParserChain
from .request import TextRequest
from .stops import StopHit, Stops


class Choice:
    """Feeds on :class:`Output` and writes events to a list. ``done`` once it ended; it then takes nothing more.

    ``stopped_here`` says that the front matched a stop, so the worker must be told to end the sequence.
    """

    __slots__ = (
        "_calls",
        "_chain",
        "_detokenizer",
        "_factory",
        "_held_ids",
        "_held_logprobs",
        "_plain",
        "_raw_len",
        "_reasoning_tokens",
        "_started",
        "_stops",
        "arrived",
        "before",
        "cached_tokens",
        "done",
        "first_at",
        "index",
        "kept",
        "labels",
        "last_at",
        "queue_seconds",
        "request",
        "rid",
        "stopped_here",
        "tokens",
    )

    def __init__(
        self, index: int, rid: str, request: TextRequest, factory: DetokenizerFactory | None, arrived: float
    ) -> None:
        sampling = request.sampling
        self.index = index
        self.rid = rid
        self.request = request
        self.arrived = arrived
        self.first_at = 0.0
        self.last_at = self.before = 0.0
        self.tokens = 0
        self.cached_tokens = 0
        self.queue_seconds = 0.0
        self.kept: list[int] | None = None
        """The tokens of the answer, where an observer set a list to keep them in."""
        self.labels: Mapping[str, str] | None = None
        """The metric labels that the client sent, where the metrics set them."""
        self.done = False
        self.stopped_here = False
        self._factory = factory
        self._detokenizer = (
            None
            if factory is None
            else factory.make(skip_special=sampling.skip_special_tokens, context=request.input_ids)
        )
        strings, patterns = sampling.stop, sampling.stop_regex
        self._stops = Stops(strings, patterns) if (strings or patterns) and factory is not None else None
        self._chain = None if request.parse is None or factory is None else ParserChain(request.parse)
        self._plain = (
            self._stops is None
            and self._chain is None
            and not request.logprobs.output
            and sampling.max_new_tokens != 0
            and not request.embed
        )
        self._started = False
        self._held_ids: list[int] = []
        self._held_logprobs: list[TokenLogprob] = []
        self._raw_len = 0
        self._calls = 0
        self._reasoning_tokens = 0

    def feed(self, out: Output, events: list[Event], now: float) -> None:
        """Append the events of one output. Only once ``done`` is the last of them a Finished or Failed."""
        if self.done:
            return
        self.before, self.last_at = self.last_at, now
        if not self._started:
            if out.finish_reason == "error":
                self._fail(out, events)
                return
            self._start(out, events, now)
        if self.kept is not None:
            self.kept += out.token_ids
        if self._plain and not out.finish_reason:
            self._feed_plain(out.token_ids, events)
        else:
            self._feed_whole(out, events)

    def _start(self, out: Output, events: list[Event], now: float) -> None:
        self._started = True
        self.first_at = now
        self.cached_tokens = out.cached_tokens
        self.queue_seconds = out.queue_seconds
        prompt = None
        if out.prompt_logprobs is not None:
            prompt = self._prompt_logprobs(out.prompt_logprobs)
        events.append(Started(self.index, len(self.request.input_ids), out.cached_tokens, prompt))

    def _fail(self, out: Output, events: list[Event]) -> None:
        self.done = True
        status = out.status or 500
        code = {429: "queue_full", 503: "overloaded"}.get(status)
        events.append(Failed(out.message or "the engine could not serve this request", status, code))

    def _feed_plain(self, ids: list[int], events: list[Event]) -> None:
        """The common case, on which the server's tokens per second hang: text and nothing else."""
        self.tokens += len(ids)
        detokenizer = self._detokenizer
        if detokenizer is None:
            text = ""
        elif len(ids) == 1:
            text = detokenizer.push(ids[0])
        else:
            text = "".join([detokenizer.push(token) for token in ids])
        if self._held_ids:
            ids = self._held_ids + ids
            self._held_ids = []
        if not text and detokenizer is not None:
            self._held_ids = ids
            return
        last = events[-1] if events else None
        if type(last) is TextPiece and last.choice == self.index and not last.logprobs:
            last.text += text
            last.token_ids = last.token_ids + ids
        else:
            events.append(TextPiece(self.index, ids, [], text))

    def _feed_whole(self, out: Output, events: list[Event]) -> None:
        if out.finish_reason == "error":
            self._fail(out, events)
            return
        ids = [] if self.request.sampling.max_new_tokens == 0 else out.token_ids
        reason, matched = out.finish_reason, out.matched
        unprinted = reason == "stop" and matched is not None and bool(ids) and ids[-1] == matched
        printed = len(ids) - (1 if unprinted and not self.request.sampling.no_stop_trim else 0)
        text, hit = self._take(ids, printed, out.logprobs)
        if hit is not None:
            text += self._at_hit(hit)
            reason = "stop"
            self.stopped_here = not out.finish_reason
        elif reason:
            tail = self._tail()
            if isinstance(tail, StopHit):
                hit, reason = tail, "stop"
                text += self._at_hit(tail)
            else:
                text += tail
        self._emit(self._parse(text, bool(reason)), events)
        if reason:
            self.done = True
            events.append(self._finished(reason, hit.matched if hit is not None else matched, out))

    def _take(self, ids: Sequence[int], printed: int, logprobs: Logprobs | None) -> tuple[str, StopHit | None]:
        """Detokenize up to the first stop. Tokens past a stop are dropped: the client never asked for them."""
        text = ""
        for at, token in enumerate(ids):
            self.tokens += 1
            self._held_ids.append(token)
            if logprobs is not None:
                self._held_logprobs.append(self._logprob(token, at, logprobs))
            if at >= printed or self._detokenizer is None:
                continue
            piece = self._detokenizer.push(token)
            self._raw_len += len(piece)
            if self._stops is None or not piece:
                text += piece
                continue
            certain = self._stops.feed(piece)
            if isinstance(certain, StopHit):
                return text, certain
            text += certain
        return text, None

    def _tail(self) -> str | StopHit:
        """The end of the text: the rest of a character, then what the stops held."""
        rest = self._detokenizer.finish() if self._detokenizer is not None else ""
        if self._stops is None:
            return rest
        certain = self._stops.feed(rest) if rest else ""
        if isinstance(certain, StopHit):
            return certain
        end = self._stops.finish()
        if isinstance(end, StopHit):
            end.text = certain + end.text
            return end
        return certain + end

    def _at_hit(self, hit: StopHit) -> str:
        return hit.text + (hit.stop_text if self.request.sampling.no_stop_trim else "")

    def _parse(self, text: str, final: bool) -> list[ParseEvent]:
        if self._chain is None:
            return [TextDelta(text)] if text else []
        return self._chain.feed(text) + (self._chain.finish() if final else [])

    def _emit(self, parsed: list[ParseEvent], events: list[Event]) -> None:
        for event in parsed:
            ids, self._held_ids = self._held_ids, []
            logprobs, self._held_logprobs = self._held_logprobs, []
            if isinstance(event, TextDelta):
                events.append(TextPiece(self.index, ids, logprobs, event.text))
            elif isinstance(event, ReasoningDelta):
                self._reasoning_tokens += len(ids)
                events.append(ReasoningPiece(self.index, ids, logprobs, event.text))
            elif isinstance(event, CallStart):
                self._calls += 1
                events.append(CallPiece(self.index, ids, logprobs, event.index, event.name, event.call_id))
            elif isinstance(event, CallArguments):
                events.append(CallPiece(self.index, ids, logprobs, event.index, arguments=event.text))

    def _finished(self, reason: str, matched: int | str | None, out: Output) -> Finished:
        ids, self._held_ids = self._held_ids, []
        logprobs, self._held_logprobs = self._held_logprobs, []
        return Finished(
            self.index,
            ids,
            logprobs,
            reason=reason,
            matched=matched,
            calls=self._calls,
            prompt_tokens=len(self.request.input_ids),
            completion_tokens=self.tokens,
            cached_tokens=self.cached_tokens,
            reasoning_tokens=self._reasoning_tokens,
            embedding=out.embedding,
        )

    def _logprob(self, token: int, at: int, logprobs: Logprobs) -> TokenLogprob:
        return TokenLogprob(
            token,
            logprobs.token_logprobs[at],
            self._raw_len,
            [(pair[0], pair[1]) for pair in logprobs.top[at]] if logprobs.top else [],
            [(pair[0], pair[1]) for pair in logprobs.wanted[at]] if logprobs.wanted else [],
        )

    def _prompt_logprobs(self, logprobs: Logprobs) -> list[TokenLogprob]:
        """One entry per prompt token from ``prompt_start`` on; the first token of a prompt has no logprob."""
        ids = self.request.input_ids
        start = max(self.request.logprobs.prompt_start, 0)
        given = len(logprobs.token_logprobs)
        shift = max(len(ids) - start - given, 0)
        offsets = self._prompt_offsets(ids)
        entries = [TokenLogprob(ids[start + at], None, offsets[start + at]) for at in range(shift)]
        for at in range(len(ids) - start - shift):
            position = start + shift + at
            entry = TokenLogprob(ids[position], logprobs.token_logprobs[at], offsets[position])
            entry.top = [(pair[0], pair[1]) for pair in logprobs.top[at]] if logprobs.top else []
            entry.wanted = [(pair[0], pair[1]) for pair in logprobs.wanted[at]] if logprobs.wanted else []
            entries.append(entry)
        return entries

    def _prompt_offsets(self, ids: Sequence[int]) -> list[int]:
        if self._factory is None:
            return [0] * len(ids)
        detokenizer = self._factory.make(skip_special=True)
        offsets, length = [], 0
        for token in ids:
            offsets.append(length)
            length += len(detokenizer.push(token))
        return offsets
