"""The channel to a worker in a process of its own.

The plan, then messages in msgpack, over one pair of sockets: a write on one side wakes the reader on the other, with no thread between. A worker
whose front does not read waits in its send, so what is on its way is bounded. The front learns of the worker's end from the process sentinel.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from multiprocessing.connection import wait
from typing import Any

import msgspec

from .channel import ChannelClosed
from .frames import FrameReader, FrameWriter
from .inbox import READ_BYTES
from .messages import Fatal, FromWorker, Shutdown, ToWorker
from .worker_process import WorkerProcess

_CLOSE_SECONDS = 10.0
_LAST_WORD_SECONDS = 0.2


class ProcessChannel:
    """See :class:`~sgl_core.engine.channel.Channel`. Ready comes as a message. ``started`` is a process that waits for a plan already; without it,
    or where it does not suit this plan, one is spawned."""

    def __init__(self, plan: Any, rank: int = 0, started: WorkerProcess | None = None) -> None:
        if started is not None and not started.suits(plan.env):
            started.close()
            started = None
        self._worker = started or WorkerProcess(rank)
        self._process = self._worker.process
        self._link = self._worker.link
        self._link.setblocking(False)
        self._writer = FrameWriter()
        self._unsent = bytearray(self._worker.first_frames(plan))
        self._frames = FrameReader()
        self._decoder = msgspec.msgpack.Decoder(FromWorker)
        self._received: deque[bytes] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken: asyncio.Future[None] | None = None
        self._over = False
        self._closed = False
        self._ended = False
        self._fatal = False
        self._write()

    @property
    def pid(self) -> int | None:
        """The worker's process id."""
        return self._process.pid

    def send(self, message: ToWorker) -> None:
        if self._closed or self._ended:
            raise ChannelClosed("the worker has ended")
        self._unsent += self._writer.frame(message)
        self._write()

    async def recv(self) -> FromWorker:
        if self._closed or self._ended:
            raise ChannelClosed("the worker has ended")
        self._attach(asyncio.get_running_loop())
        while not self._received:
            if self._over:
                return self._last_word()
            self._woken = asyncio.get_running_loop().create_future()
            await self._woken
        message: FromWorker = self._decoder.decode(self._received.popleft())
        self._fatal = self._fatal or isinstance(message, Fatal)
        return message

    def alive(self) -> bool:
        return not self._closed and self._process.is_alive()

    def close(self) -> None:
        if self._closed:
            return
        self._detach()
        if self._process.is_alive():
            self._unsent += self._writer.frame(Shutdown())
            self._part(time.monotonic() + _CLOSE_SECONDS)
        self._closed = True
        self._worker.close()

    # -- the socket ---------------------------------------------------------------------------------------------------

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read on this loop from now on."""
        if self._loop is not loop:
            self._detach()
            self._loop = loop
            loop.add_reader(self._link, self._read)
            loop.add_reader(self._process.sentinel, self._died)
            self._write()

    def _detach(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._link)
            loop.remove_writer(self._link)
            loop.remove_reader(self._process.sentinel)

    def _read(self) -> None:
        try:
            data = self._link.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._received.extend(self._frames.feed(data))
            self._wake()
        else:
            self._end()

    def _died(self) -> None:
        """What the worker said last may still be under way."""
        if self._loop is not None:
            self._loop.remove_reader(self._process.sentinel)
            self._loop.call_later(_LAST_WORD_SECONDS, self._end)

    def _end(self) -> None:
        self._over = True
        self._detach()
        self._wake()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _write(self) -> None:
        """Send what can be sent at once; the loop sends the rest."""
        try:
            while self._unsent:
                del self._unsent[: self._link.send(self._unsent)]
        except BlockingIOError:
            if self._loop is not None:
                self._loop.add_writer(self._link, self._write)
            return
        except OSError:  # the worker is gone, which reading tells
            self._unsent.clear()
        if self._loop is not None:
            self._loop.remove_writer(self._link)

    def _part(self, deadline: float) -> None:
        """Send the last message and wait for the worker's end; it may have to get rid of what it has to say first."""
        while self._process.is_alive() and (seconds := deadline - time.monotonic()) > 0:
            self._write()
            wait([self._process.sentinel, self._link], min(seconds, 0.05 if self._unsent else seconds))
            try:
                if not self._link.recv(READ_BYTES):
                    self._process.join(max(deadline - time.monotonic(), 0))
            except BlockingIOError:
                continue
            except OSError:
                self._process.join(max(deadline - time.monotonic(), 0))

    def _last_word(self) -> FromWorker:
        """The worker's end as a message, if it did not say anything itself."""
        self._ended = True
        self._process.join(1.0)
        code = self._process.exitcode
        if self._fatal or (code == 0 and self._closed):
            raise ChannelClosed("the worker has ended")
        how = f"by signal {-code}" if code is not None and code < 0 else f"with status {code}"
        return Fatal(message=f"the worker process (pid {self._process.pid}) ended {how}")
