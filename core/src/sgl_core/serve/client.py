"""A light HTTP/1.1 client for JSON and server-sent events, enough for the terminal chat and the load generator.

Written on asyncio streams: the load generator must cost far less than the server it measures.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


class HttpError(Exception):
    """The server could not be reached, or answered with an error; ``status`` is 0 where there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class _Answer:
    status: int
    headers: dict[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One server. ``url`` is its root, with or without ``/v1``; every call opens a connection of its own."""

    url: str
    api_key: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    connect_seconds: float = 10.0

    @property
    def root(self) -> str:
        """The path in front of the routes, without ``/v1``."""
        return urlsplit(self.url).path.rstrip("/").removesuffix("/v1")

    async def get(self, path: str) -> Any:
        """A JSON answer. Raises HttpError."""
        return await self._json("GET", path, None)

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        """A JSON answer to a JSON body. Raises HttpError."""
        return await self._json("POST", path, body)

    async def stream(self, path: str, body: dict[str, Any]) -> AsyncIterator[bytes]:
        """The data of each server-sent event up to ``[DONE]``. Raises HttpError; leaving early closes the connection."""
        answer = await self._send("POST", path, body)
        try:
            if answer.status != 200:
                raise _error(answer.status, await _whole(answer))
            async for line in _lines(_pieces(answer)):
                if line.startswith(b"data:"):
                    data = line[5:].strip()
                    if data == b"[DONE]":
                        return
                    yield data
        except (OSError, asyncio.IncompleteReadError) as error:
            raise HttpError(f"the stream broke off: {error}") from None
        finally:
            answer.writer.close()

    async def _json(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        answer = await self._send(method, path, body)
        try:
            raw = await _whole(answer)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise HttpError(f"the answer broke off: {error}") from None
        finally:
            answer.writer.close()
        if answer.status != 200:
            raise _error(answer.status, raw)
        try:
            return json.loads(raw) if raw else None
        except ValueError:
            raise HttpError("the answer is not JSON", answer.status) from None

    async def _send(self, method: str, path: str, body: dict[str, Any] | None) -> _Answer:
        parts = urlsplit(self.url)
        secure = parts.scheme == "https"
        host = parts.hostname or "127.0.0.1"
        port = parts.port or (443 if secure else 80)
        payload = b"" if body is None else json.dumps(body).encode()
        headers = {"host": parts.netloc, "connection": "close", "accept": "*/*", **self.headers}
        if body is not None:
            headers |= {"content-type": "application/json", "content-length": str(len(payload))}
        if self.api_key:
            headers["authorization"] = f"Bearer {self.api_key}"
        head = f"{method} {self.root}{path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        try:
            opening = asyncio.open_connection(host, port, ssl=ssl.create_default_context() if secure else None)
            reader, writer = await asyncio.wait_for(opening, self.connect_seconds)
        except (OSError, asyncio.TimeoutError) as error:
            raise HttpError(f"{self.url} cannot be reached: {error or 'no answer'}") from None
        try:
            writer.write(head.encode() + b"\r\n" + payload)
            await writer.drain()
            status, found = await _head(reader)
        except BaseException as error:
            writer.close()
            if isinstance(error, OSError | asyncio.IncompleteReadError | ValueError):
                raise HttpError(f"{self.url} gave no HTTP answer: {error}") from None
            raise
        return _Answer(status, found, reader, writer)


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(lines[0].split(" ", 2)[1])
    headers = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return status, headers


async def _pieces(answer: _Answer) -> AsyncIterator[bytes]:
    """The body as it comes: chunked, of a stated length, or up to the end of the connection."""
    reader = answer.reader
    if answer.headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await reader.readline()).split(b";")[0] or b"0", 16):
            yield await reader.readexactly(size)
            await reader.readexactly(2)
        return
    length = answer.headers.get("content-length")
    if length is not None:
        yield await reader.readexactly(int(length))
        return
    while data := await reader.read(65536):
        yield data


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r")
    if rest:
        yield rest


async def _whole(answer: _Answer) -> bytes:
    return b"".join([piece async for piece in _pieces(answer)])


def _error(status: int, raw: bytes) -> HttpError:
    try:
        message = json.loads(raw)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = raw[:200].decode("utf-8", "replace") or "no message"
    return HttpError(f"HTTP {status}: {message}", status)
