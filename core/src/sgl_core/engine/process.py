"""A worker in a process of its own: the spawn target, and the channel by which the front starts it and talks to it.

Messages are msgpack over one pair of sockets: a write on one side wakes the reader on the other, with no thread between. A worker whose front
does not read waits in its send, so what is on its way is bounded. The worker ignores interrupts (the front leads the drain) and
ends when its parent does. The front learns of the worker's end from the process sentinel.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import faulthandler
import gc
import logging
import multiprocessing
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
import weakref
from collections import deque
from multiprocessing.connection import wait
from typing import Any

import msgspec

from .channel import ChannelClosed
from .frames import FrameReader, FrameWriter
from .messages import Fatal, FromWorker, Progress, Shutdown, ToWorker
from .start import make_loop
from .watchdog import watch_steps

log = logging.getLogger(__name__)

_CLOSE_SECONDS = 10.0
_SWITCH_SECONDS = 0.0002
"""How long a thread that does not wait may keep the interpreter. The usual 5 ms are a quarter of a step: filling the masks of a batch would hold up
the step that it is meant to overlap."""
_LAST_WORD_SECONDS = 0.2
_READ_BYTES = 1 << 18


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
                data = self._link.recv(_READ_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return messages
            if not data:
                return [*messages, Shutdown()]
            for frame in self._frames.feed(data):
                try:
                    messages.append(self._decoder.decode(frame))
                except msgspec.DecodeError:
                    log.exception("a message that is none of ours was dropped")


def run_worker(plan_json: str, rank: int, link: socket.socket) -> None:
    """Load the plan's model and serve it until told to stop. Exit status 0 after Shutdown, 1 after a failure (reported as Fatal)."""
    from sgl_core.plan import Plan

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    faulthandler.enable()
    sys.setswitchinterval(_SWITCH_SECONDS)
    _follow_parent()
    writer = FrameWriter()

    def send(message: FromWorker) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the front is gone, which the inbox tells
            link.sendall(writer.frame(message))

    def progress(what: str, done: int, total: int) -> None:
        send(Progress(what=what, done=done, total=total))

    status = 1
    try:
        plan = Plan.from_json(plan_json)
        level = (plan.config.get("log_level") or "info").upper()
        logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        os.environ.update(plan.env)
        loop = make_loop(plan, rank, SocketInbox(link), send, progress)
        watch_steps(loop, plan.config.get("watchdog_timeout"))
        gc.collect()
        gc.freeze()  # the model's objects live as long as the process: collections need not look at them
    except Exception as error:
        log.exception("the worker could not start")
        send(Fatal(message=f"{type(error).__name__}: {error}", traceback=traceback.format_exc()))
    else:
        try:
            loop.run()
            status = 0
        except Exception:
            log.exception("the worker ends")
    link.close()
    os._exit(status)  # threads that hang (a compile, a device) must not keep a finished worker


def _follow_parent() -> None:
    """End this process when its parent has ended, however that happened."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="sgl-parent-watch", daemon=True).start()


class ProcessChannel:
    """See :class:`~sgl_core.engine.channel.Channel`. Spawns the worker at once; Ready comes as a message."""

    def __init__(self, plan: Any, rank: int = 0) -> None:
        self._link, theirs = socket.socketpair()
        self._link.setblocking(False)
        self._writer = FrameWriter()
        self._unsent = bytearray()
        self._frames = FrameReader()
        self._decoder = msgspec.msgpack.Decoder(FromWorker)
        self._received: deque[bytes] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken: asyncio.Future[None] | None = None
        self._over = False
        self._closed = False
        self._ended = False
        self._fatal = False
        self._process = multiprocessing.get_context("spawn").Process(
            target=run_worker, args=(plan.to_json(), rank, theirs), name=f"sgl-worker-{rank}", daemon=True
        )
        self._process.start()
        theirs.close()
        # Without this the interpreter's own exit would wait for a daemon process that ignores SIGTERM.
        self._finalizer = weakref.finalize(self, _stop, self._process)
        atexit.register(self._finalizer)

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
        self._link.close()
        self._finalizer()
        atexit.unregister(self._finalizer)

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
            data = self._link.recv(_READ_BYTES)
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
                if not self._link.recv(_READ_BYTES):
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


def _stop(process: Any) -> None:
    if process.is_alive():
        process.kill()
        process.join()
