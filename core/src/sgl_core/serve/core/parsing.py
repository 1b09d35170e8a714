"""The parser seam: a reasoning parser and a tool parser, one after the other, on the text of one choice."""

from __future__ import annotations

from sgl_core.api.parsers import OutputParser, ParseEvent, TextDelta

from .request import ParseSettings


class ParserChain:
    """Feeds text to the reasoning parser, and what that leaves as answer text to the tool parser. Either may be absent."""

    __slots__ = ("_parsers",)

    def __init__(self, settings: ParseSettings) -> None:
        factories = (settings.reasoning, settings.tools)
        self._parsers: list[OutputParser] = [make(settings.context) for make in factories if make is not None]

    def feed(self, text: str) -> list[ParseEvent]:
        """Events that became certain with ``text``."""
        events: list[ParseEvent] = [TextDelta(text)] if text else []
        for parser in self._parsers:
            events = self._through(parser, events)
        return events

    def finish(self) -> list[ParseEvent]:
        """What is left at the end: each parser's tail passes through those after it."""
        events: list[ParseEvent] = []
        for parser in self._parsers:
            events = self._through(parser, events)
            events.extend(parser.finish())
        return events

    @staticmethod
    def _through(parser: OutputParser, events: list[ParseEvent]) -> list[ParseEvent]:
        out: list[ParseEvent] = []
        for event in events:
            if isinstance(event, TextDelta):
                out.extend(parser.feed(event.text))
            else:
                out.append(event)
        return out
