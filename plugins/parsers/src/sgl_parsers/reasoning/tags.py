"""TaggedReasoning: thinking between two tags, for every family that marks it so; a family is the data of :class:`Tags`."""

from __future__ import annotations

from dataclasses import dataclass

from sgl_core.api.parsers import ParseContext, ParseEvent, ReasoningDelta, TextDelta

from ..machine.source import Source, Wait


@dataclass(frozen=True, kw_only=True)
class Tags:
    """A family's markers.

    ``assumed`` says that an answer of which prompt and request tell nothing begins with thinking though no tag opens it. ``implied_ends``
    are markers that end thinking without being part of it, such as the beginning of a tool call. ``plain`` are markers around content that
    are not content.
    """

    begin: str
    end: str
    assumed: bool = False
    implied_ends: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()


class TaggedReasoning:
    """An :class:`sgl_core.api.parsers.OutputParser`. White space at either end of the thinking and before the content is layout."""

    tags: Tags
    reasoning_begin = ""
    reasoning_end = ""
    excluded: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        tags = cls.tags
        cls.reasoning_begin, cls.reasoning_end = tags.begin, tags.end
        cls.excluded = (tags.begin, *tags.implied_ends, *tags.plain)

    @classmethod
    def thinks(cls, context: ParseContext) -> bool | None:
        """Whether the answer begins inside the thinking: as the prompt, the request or the family says; None where the model decides."""
        tags, tail = cls.tags, context.prompt_tail
        begun, ended = tail.rfind(tags.begin), tail.rfind(tags.end)
        if begun >= 0 and begun > ended and not tail[begun + len(tags.begin) :].strip():
            return True
        if ended >= 0 and ended > begun and not tail[ended + len(tags.end) :].strip():
            return False
        if context.thinking is False:
            return False
        return True if tags.assumed and not tail and not context.constrained else None

    def __init__(self, context: ParseContext) -> None:
        self.context = context
        self.source = Source()
        self._events: list[ParseEvent] = []
        self._space = ""
        self._begun = False
        self._running = self._run()
        self._done = False

    def feed(self, delta: str) -> list[ParseEvent]:
        """More of the model's text."""
        self.source.push(delta)
        return self._resume()

    def finish(self) -> list[ParseEvent]:
        """The text is complete."""
        self.source.ended = True
        return self._resume()

    def _resume(self) -> list[ParseEvent]:
        if not self._done:
            try:
                next(self._running)
            except StopIteration:
                self._done = True
        events, self._events = self._events, []
        return events

    def _run(self) -> Wait[None]:
        tags, source = self.tags, self.source
        thinking = self.thinks(self.context) is True
        if (yield from source.after_spaces((tags.begin,))) == tags.begin:
            yield from source.spaces()
            yield from source.accept(tags.begin)
            thinking = True
        thought = thinking
        while thinking:
            found = yield from source.until((tags.end, *tags.implied_ends), self._reason)
            self._space = ""
            if found != tags.end:
                source.pos -= len(found)
                break
            again = yield from source.after_spaces((tags.begin,))
            thinking = again == tags.begin
            if thinking:
                yield from source.spaces()
                yield from source.accept(tags.begin)
        if thought:
            yield from source.spaces()
        yield from self._content()

    def _content(self) -> Wait[None]:
        markers = self.tags.plain
        while markers and (yield from self.source.until(markers, self._text)):
            pass
        while (yield from self.source.need(1)):
            self._text(self.source.text[self.source.pos :])
            self.source.pos = len(self.source.text)

    def _reason(self, text: str) -> None:
        kept = text.rstrip()
        if kept:
            self._events.append(ReasoningDelta(self._space + kept if self._begun else kept.lstrip()))
            self._begun = True
            self._space = ""
        self._space += text[len(kept) :]

    def _text(self, text: str) -> None:
        self._events.append(TextDelta(text))
