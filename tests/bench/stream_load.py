"""A lean load of many streams at once: raw sockets on one event loop. While it runs it keeps bytes and times; it reads them after the clock.

Every stream must be the one answer its prompt has (the null worker's, see ``sgl_core.testing.engine_driver.oracle``), whole and alone.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

END = b"0\r\n\r\n"


@dataclass(slots=True)
class Stream:
    """One answer as it came: pieces of bytes, each with its time (``time.perf_counter``)."""

    number: int
    sent: float = 0.0
    times: list[float] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)
    lost: bool = False


class _Answer(asyncio.Protocol):
    """Takes in one answer of a connection after the other."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.stream: Stream | None = None
        self._begun: Callable[[], None]
        self._done: Callable[[], None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def ask(self, request: bytes, stream: Stream, begun: Callable[[], None], done: Callable[[], None]) -> None:
        self.stream, self._begun, self._done = stream, begun, done
        stream.sent = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        stream = self.stream
        if stream is not None:
            if not stream.times:
                self._begun()
            stream.times.append(time.perf_counter())
            stream.pieces.append(data)
            if data.endswith(END):
                self.stream = None
                self._done()

    def connection_lost(self, error: Exception | None) -> None:
        if self.stream is not None:
            self.stream.lost, self.stream = True, None
            self._done()


async def play(
    host: str, port: int, path: str, bodies: Sequence[dict[str, Any]], all_run: Callable[[], None]
) -> list[Stream]:
    """All requests at once, each on a connection that was opened before. ``all_run`` is called, in a thread, when each has begun to answer."""
    loop = asyncio.get_running_loop()
    answers = [(await loop.create_connection(_Answer, host, port))[1] for _ in bodies]
    head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: "
    requests = []
    for body in bodies:
        payload = json.dumps(body).encode()
        requests.append(f"{head}{len(payload)}\r\n\r\n".encode() + payload)
    streams = [Stream(number) for number in range(len(bodies))]
    silent = left = len(streams)
    over = loop.create_future()
    noted: asyncio.Future[None] | None = None

    def begun() -> None:
        nonlocal silent, noted
        silent -= 1
        if not silent:
            noted = loop.run_in_executor(None, all_run)

    def done() -> None:
        nonlocal left
        left -= 1
        if not left:
            over.set_result(None)

    for answer, request, stream in zip(answers, requests, streams, strict=True):
        answer.ask(request, stream, begun, done)
    await over
    if noted is not None:
        await noted
    for answer in answers:
        answer.transport.close()
    return streams


@dataclass(frozen=True, slots=True)
class Read:
    """What a stream said: its text, how many events brought some, the server's count of tokens, and what is wrong with its form."""

    text: str
    events: int
    tokens: int
    fault: str = ""


def read(stream: Stream) -> Read:
    """The stream's events. A fault is named, never raised."""
    raw = b"".join(stream.pieces)
    head, _, rest = raw.partition(b"\r\n\r\n")
    if stream.lost or not head.startswith(b"HTTP/1.1 200"):
        return Read("", 0, 0, f"no whole answer: {raw[:80]!r}")
    body = bytearray()
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    blocks = body.decode().split("\n\n")
    if blocks[-2:] != ["data: [DONE]", ""]:
        return Read("", 0, 0, f"no end mark: {blocks[-2:]!r}")
    events = [json.loads(block.removeprefix("data: ")) for block in blocks[:-2]]
    texts = [choice["delta"].get("content") for event in events for choice in event["choices"]]
    ends = [choice["finish_reason"] for event in events for choice in event["choices"] if choice["finish_reason"]]
    fault = "" if ends == ["length"] else f"ended {ends}"
    if len({event["id"] for event in events}) != 1:
        fault = "chunks of several answers"
    count = sum(event["usage"]["completion_tokens"] for event in events if event.get("usage"))
    return Read("".join(text for text in texts if text), sum(map(bool, texts)), count, fault)
