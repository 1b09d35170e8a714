"""The worker's end of the socket to its front."""

from __future__ import annotations

import logging
import select
import socket

import msgspec

from .frames import FrameReader
from .messages import Shutdown, ToWorker

log = logging.getLogger(__name__)

READ_BYTES = 1 << 18
"""How much is read at once, on either side."""


class SocketInbox:
    """See :class:`~sgl_core.engine.loop.Inbox`. The front's end is the end of the socket: it reads as Shutdown."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._ready = select.poll()
        self._ready.register(link, select.POLLIN)
        self._frames = FrameReader()
        self._decoder = msgspec.msgpack.Decoder(ToWorker)

    def receive(self, timeout: float | None) -> list[ToWorker]:
        messages: list[ToWorker] = []
        if timeout != 0 and not self._ready.poll(None if timeout is None else timeout * 1000):
            return messages
        while True:
            try:
                data = self._link.recv(READ_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return messages
            if not data:
                return [*messages, Shutdown()]
            for frame in self._frames.feed(data):
                try:
                    messages.append(self._decoder.decode(frame))
                except msgspec.DecodeError:
                    log.exception("a message that is none of ours was dropped")
