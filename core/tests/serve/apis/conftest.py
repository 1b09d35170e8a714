"""A served application on a real socket, for official clients, and a parser of small markers for every API's tests."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn

from sgl_core.api.parsers import (
    CallArguments,
    CallStart,
    ParseContext,
    ParseEvent,
    ReasoningDelta,
    TextDelta,
)


@dataclass
class Live:
    """A running server: its root URL, and the ``api`` behind it (see the ``serve`` fixture)."""

    url: str
    api: Any


class _Server(uvicorn.Server):
    """uvicorn in a thread: no signal handlers, and an event once it listens."""

    def __init__(self, config: uvicorn.Config, listening: threading.Event) -> None:
        super().__init__(config)
        self._listening = listening

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening.set()


MakeLive = Callable[..., AbstractContextManager[Live]]


@pytest.fixture
def live(serve: Any) -> MakeLive:
    """``with live(...) as server``; takes what ``serve`` takes."""

    @contextlib.contextmanager
    def make(*args: Any, **options: Any) -> Iterator[Live]:
        listener = socket.create_server(("127.0.0.1", 0))
        listening = threading.Event()
        found: dict[str, Any] = {}

        async def main() -> None:
            async with serve(*args, **options) as api:
                config = uvicorn.Config(api.app, log_config=None, lifespan="on", timeout_graceful_shutdown=2)
                found["api"], found["server"] = api, _Server(config, listening)
                await found["server"].serve(sockets=[listener])

        thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
        thread.start()
        assert listening.wait(20), "the server did not start"
        try:
            yield Live(f"http://127.0.0.1:{listener.getsockname()[1]}", found["api"])
        finally:
            found["server"].should_exit = True
            thread.join(20)
            listener.close()
            assert not thread.is_alive()

    return make


class Marks:
    """Reads ``<think>..</think>`` as reasoning and ``<call>NAME {..}</call>`` as calls, whatever the cut of the text."""

    def __init__(self, kind: str) -> None:
        self.open, self.close = f"<{kind}>", f"</{kind}>"
        self.kind = kind
        self.inside = False
        self.held = ""
        self.index = -1

    def feed(self, delta: str) -> list[ParseEvent]:
        self.held += delta
        events: list[ParseEvent] = []
        while True:
            marker = self.close if self.inside else self.open
            at = self.held.find(marker)
            if at < 0:
                keep = next((k for k in range(len(marker) - 1, 0, -1) if self.held.endswith(marker[:k])), 0)
                cut = 0 if self.inside and self.kind == "call" else len(self.held) - keep
                events += self.text(self.held[:cut])
                self.held = self.held[cut:]
                return events
            events += self.text(self.held[:at], whole=True)
            self.held = self.held[at + len(marker) :]
            self.inside = not self.inside

    def finish(self) -> list[ParseEvent]:
        held, self.held = self.held, ""
        return [TextDelta(held)] if held else []

    def text(self, text: str, whole: bool = False) -> list[ParseEvent]:
        if not text:
            return []
        if not self.inside:
            return [TextDelta(text)]
        if self.kind == "think":
            return [ReasoningDelta(text)]
        if not whole:
            return []
        name, _, arguments = text.partition(" ")
        self.index += 1
        half = len(arguments) // 2
        pieces = [piece for piece in (arguments[:half], arguments[half:]) if piece]
        return [CallStart(self.index, name), *(CallArguments(self.index, piece) for piece in pieces)]


def thinks(context: ParseContext) -> Marks:
    return Marks("think")


def calls(context: ParseContext) -> Marks:
    return Marks("call")


@pytest.fixture
def parsers() -> dict[str, Any]:
    """Service fields: a reasoning parser and a tool parser."""
    return {"reasoning_parser": thinks, "tool_parser": calls}


WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.fixture
def weather() -> dict[str, Any]:
    """The parameters of a tool."""
    return WEATHER
