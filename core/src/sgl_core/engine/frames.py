"""Messages over a stream socket: eight bytes of length (little-endian), then so many bytes of msgpack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

HEAD = 8


class FrameWriter:
    """Encodes messages into one buffer that is used again."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._buffer = bytearray()

    def frame(self, message: Any) -> bytearray:
        """The frame of a message; it holds until the next call."""
        buffer = self._buffer
        self._encoder.encode_into(message, buffer, HEAD)
        buffer[:HEAD] = (len(buffer) - HEAD).to_bytes(HEAD, "little")
        return buffer


class FrameReader:
    """Cuts what comes into messages' bytes, wherever a read happened to end."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The messages that are whole now."""
        held = self._held
        held += data
        at = 0
        while len(held) >= at + HEAD:
            end = at + HEAD + int.from_bytes(held[at : at + HEAD], "little")
            if len(held) < end:
                break
            yield bytes(held[at + HEAD : end])
            at = end
        del held[:at]
