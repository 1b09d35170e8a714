"""What the front sees of a worker, whatever carries the messages: send, receive, aliveness, close."""

from __future__ import annotations

from typing import Protocol

from .messages import FromWorker, ToWorker


class ChannelClosed(RuntimeError):
    """Nothing can be sent or received any more: the channel was closed, or its worker's end has been reported."""


class Channel(Protocol):
    """One worker. The end of a worker that was not asked to end is received once, as a :class:`~.messages.Fatal`."""

    def send(self, message: ToWorker) -> None:
        """Queue a message; never blocks. Raises :class:`ChannelClosed` after the end."""
        ...

    async def recv(self) -> FromWorker:
        """The next message. One caller at a time. Raises :class:`ChannelClosed` after the end."""
        ...

    def alive(self) -> bool:
        """Whether the worker runs."""
        ...

    def close(self) -> None:
        """Ask the worker to end, wait for it a while, then stop it by force. Safe to call twice."""
        ...
