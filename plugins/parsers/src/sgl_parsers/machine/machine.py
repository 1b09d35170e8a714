"""Machine: the base of the tool parsers; runs a family's reader, emits content, and turns malformed calls back into text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sgl_core.api.parsers import ParseContext, ParseEvent, TextDelta

from . import json_reader
from .call_object import DEFAULT_KEYS, CallKeys, call_object
from .calls import CallSink
from .source import Malformed, Source, Wait


class Machine:
    """An :class:`sgl_core.api.parsers.OutputParser` driven by the generator :meth:`run`.

    A family sets ``opens``, the markers that may begin a call, and :meth:`body`, which reads what follows one. When the body raises
    :class:`Malformed`, the marker is content and reading goes on right behind it, so that no text is ever lost.
    White space next to a call is not content.
    """

    opens: tuple[str, ...] = ()

    def __init__(self, context: ParseContext) -> None:
        self.context = context
        self.source = Source()
        self.events: list[ParseEvent] = []
        self.calls = CallSink(self.events)
        self._space = ""
        self._after_call = False
        self._running = self.run()
        self._done = False

    def feed(self, delta: str) -> list[ParseEvent]:
        """More of the model's text."""
        self.source.push(delta)
        return self._resume()

    def finish(self) -> list[ParseEvent]:
        """The text is complete."""
        self.source.ended = True
        events = self._resume()
        if self._space and not self._after_call:
            events.append(TextDelta(self._space))
        self._space = ""
        return events

    def run(self) -> Wait[None]:
        """Content until a marker, then a call, and so on."""
        yield from self.lead()
        while True:
            marker = yield from self.source.until(self.opens, self.text)
            if not marker:
                return
            yield from self.attempt(partial(self.body, marker), marker)

    def lead(self) -> Wait[None]:
        """What may stand only at the very beginning of the answer; nothing unless a family says otherwise."""
        return
        yield

    def body(self, marker: str) -> Wait[None]:
        """Read what follows ``marker``. Raises :class:`Malformed`."""
        raise Malformed(f"{marker} begins nothing")
        yield

    def attempt(self, reader: Callable[[], Wait[None]], marker: str = "") -> Wait[bool]:
        """Run a reader; if what it finds is malformed and nothing of it was sent, restore it as text. True when it succeeded."""
        source = self.source
        mark = source.mark()
        before = self.calls.count
        try:
            yield from reader()
        except Malformed:
            taken_back = self.calls.cancel()
            whole = taken_back and self.calls.count == before
            source.release(mark, rewind=whole)
            if whole and marker:
                self.text(marker)
            return False
        source.release(mark)
        if self.calls.count > before:
            self._space = ""
            self._after_call = True
        return True

    def each(
        self, reader: Callable[[], Wait[None]], separators: tuple[str, ...], closers: tuple[str, ...]
    ) -> Wait[None]:
        """Read calls one after another until a closer. Those before a malformed one stand; it and the rest become text."""
        while True:
            if not (yield from self.attempt(reader)):
                raise Malformed("a malformed call")
            yield from self.source.spaces()
            if (yield from self.source.expect(*separators, *closers)) in closers:
                return
            yield from self.source.spaces()

    def call_objects(self, keys: CallKeys = DEFAULT_KEYS) -> Wait[None]:
        """Read one JSON call object or an array of them."""
        yield from self.source.spaces()
        if not (yield from self.source.accept("[")):
            yield from self.attempt_or_fail(lambda: call_object(self.source, self.calls, keys))
            return
        yield from self.source.spaces()
        if not (yield from self.source.accept("]")):
            yield from self.each(lambda: call_object(self.source, self.calls, keys), (",",), ("]",))

    def attempt_or_fail(self, reader: Callable[[], Wait[None]]) -> Wait[None]:
        """One call that is restored alone when malformed. Raises :class:`Malformed` then."""
        if not (yield from self.attempt(reader)):
            raise Malformed("a malformed call")

    def repeated(self, reader: Callable[[], Wait[None]], *openers: str) -> Wait[None]:
        """Read a call, and further ones for as long as one of their openers comes next. Raises :class:`Malformed` as :meth:`each` does."""
        yield from self.source.spaces()
        yield from self.attempt_or_fail(reader)
        while (yield from self.source.after_spaces(openers)) in openers:
            yield from self.source.spaces()
            yield from self.attempt_or_fail(reader)

    def named_object(self, name: str, call_id: str | None = None) -> Wait[None]:
        """A call whose name was read already and whose arguments are one JSON object. Raises :class:`Malformed`."""
        if not name or any(c.isspace() or c in '<>{}[]()"' for c in name):
            raise Malformed("no function name")
        yield from self.source.spaces()
        if (yield from self.source.peek()) != "{":
            raise Malformed("arguments are not an object")
        self.calls.begin(name, call_id)
        yield from json_reader.members(self.source, self.calls.arguments)
        self.calls.end()

    def until(self, *markers: str) -> Wait[str]:
        """The text up to the first of the markers, which is consumed. Raises :class:`Malformed` where none comes."""
        pieces: list[str] = []
        if not (yield from self.source.until(markers, pieces.append)):
            raise Malformed(f"no {' or '.join(markers)}")
        return "".join(pieces)

    def skip(self, *markers: str) -> Wait[str]:
        """Consume one of the markers, white space before it included, if it comes next."""
        found = yield from self.source.after_spaces(markers)
        if found in ("", "$"):
            return ""
        yield from self.source.spaces()
        return (yield from self.source.accept(found))

    def text(self, text: str) -> None:
        """Content for the client; white space waits for what comes behind it."""
        kept = text.rstrip()
        if kept:
            lead = "" if self._after_call else self._space
            self.events.append(TextDelta(lead + (kept.lstrip() if self._after_call else kept)))
            self._after_call = False
            self._space = ""
        self._space += text[len(kept) :]

    def _resume(self) -> list[ParseEvent]:
        if not self._done:
            try:
                next(self._running)
            except StopIteration:
                self._done = True
        events, self.events[:] = list(self.events), []
        return _joined(events)


def _joined(events: list[ParseEvent]) -> list[ParseEvent]:
    """Neighbouring text deltas as one."""
    out: list[ParseEvent] = []
    for event in events:
        if isinstance(event, TextDelta) and out and isinstance(out[-1], TextDelta):
            out[-1] = TextDelta(out[-1].text + event.text)
        else:
            out.append(event)
    return out
