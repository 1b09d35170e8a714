"""A worker in a process of its own: the spawn target, and the channel by which the front starts it and talks to it.

Messages are msgpack over zmq ipc sockets in a private folder. The worker ignores interrupts (the front leads the drain) and
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
import shutil
import signal
import tempfile
import threading
import traceback
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

import msgspec
import zmq
import zmq.asyncio

from .channel import ChannelClosed
from .messages import Fatal, FromWorker, Progress, Shutdown, ToWorker
from .start import make_loop
from .watchdog import watch_steps

log = logging.getLogger(__name__)

_CLOSE_SECONDS = 10.0
_LAST_WORD_SECONDS = 0.2
_LINGER_MS = 2000


@dataclass(frozen=True, slots=True)
class Endpoints:
    """zmq addresses: the worker binds ``inbox`` (it pulls) and connects to ``outbox`` (it pushes)."""

    inbox: str
    outbox: str


class ZmqInbox:
    """See :class:`~sgl_core.engine.loop.Inbox`."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._decoder = msgspec.msgpack.Decoder(ToWorker)

    def receive(self, timeout: float | None) -> list[ToWorker]:
        messages: list[ToWorker] = []
        if not self._socket.poll(None if timeout is None else int(timeout * 1000)):
            return messages
        while True:
            try:
                data = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return messages
            try:
                messages.append(self._decoder.decode(data))
            except msgspec.DecodeError:
                log.exception("a message that is none of ours was dropped")


def run_worker(plan_json: str, rank: int, endpoints: Endpoints) -> None:
    """Load the plan's model and serve it until told to stop. Exit status 0 after Shutdown, 1 after a failure (reported as Fatal)."""
    from sgl_core.plan import Plan

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    faulthandler.enable()
    _follow_parent(os.path.dirname(endpoints.inbox.removeprefix("ipc://")))
    context = zmq.Context()
    inbox, outbox = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    inbox.set_hwm(0)
    outbox.set_hwm(0)
    outbox.setsockopt(zmq.LINGER, _LINGER_MS)
    inbox.bind(endpoints.inbox)
    outbox.connect(endpoints.outbox)
    send = _sender(outbox)

    def progress(what: str, done: int, total: int) -> None:
        send(Progress(what=what, done=done, total=total))

    status = 1
    try:
        plan = Plan.from_json(plan_json)
        level = (plan.config.get("log_level") or "info").upper()
        logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        os.environ.update(plan.env)
        loop = make_loop(plan, rank, ZmqInbox(inbox), send, progress)
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
    inbox.close()
    outbox.close()
    context.term()
    os._exit(status)  # threads that hang (a compile, a device) must not keep a finished worker


def _sender(socket: zmq.Socket[bytes]) -> Callable[[FromWorker], None]:
    """Encode into one reused buffer and send."""
    encoder, buffer = msgspec.msgpack.Encoder(), bytearray()

    def send(message: FromWorker) -> None:
        encoder.encode_into(message, buffer)
        socket.send(buffer, copy=True)

    return send


def _follow_parent(folder: str) -> None:
    """End this process, and remove its sockets' folder, when its parent has ended, however that happened."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch, name="sgl-parent-watch", daemon=True).start()


class ProcessChannel:
    """See :class:`~sgl_core.engine.channel.Channel`. Spawns the worker at once; Ready comes as a message."""

    def __init__(self, plan: Any, rank: int = 0) -> None:
        self._folder = tempfile.mkdtemp(prefix="sgl-")
        endpoints = Endpoints(f"ipc://{self._folder}/in", f"ipc://{self._folder}/out")
        self._context = zmq.Context()
        self._decoder = msgspec.msgpack.Decoder(FromWorker)
        self._encoder = msgspec.msgpack.Encoder()
        self._from_worker = zmq.asyncio.Context(self._context).socket(zmq.PULL)
        self._from_worker.set_hwm(0)
        self._from_worker.bind(endpoints.outbox)
        self._to_worker = self._context.socket(zmq.PUSH)
        self._to_worker.set_hwm(0)
        self._to_worker.setsockopt(zmq.LINGER, 0)
        self._to_worker.connect(endpoints.inbox)
        self._closed = False
        self._ended = False
        self._fatal = False
        self._pending: asyncio.Future[bytes] | None = None
        self._process = multiprocessing.get_context("spawn").Process(
            target=run_worker, args=(plan.to_json(), rank, endpoints), name=f"sgl-worker-{rank}", daemon=True
        )
        self._process.start()
        # Without this the interpreter's own exit would wait for a daemon process that ignores SIGTERM.
        self._finalizer = weakref.finalize(self, _stop, self._process, self._folder)
        atexit.register(self._finalizer)

    @property
    def pid(self) -> int | None:
        """The worker's process id."""
        return self._process.pid

    def send(self, message: ToWorker) -> None:
        if self._closed or self._ended:
            raise ChannelClosed("the worker has ended")
        self._to_worker.send(self._encoder.encode(message), zmq.NOBLOCK)

    async def recv(self) -> FromWorker:
        if self._closed or self._ended:
            raise ChannelClosed("the worker has ended")
        loop = asyncio.get_running_loop()
        receiving = self._receiving(loop)
        if not receiving.done():
            died = loop.create_future()
            loop.add_reader(self._process.sentinel, _set, died)
            try:
                await asyncio.wait({receiving, died}, return_when=asyncio.FIRST_COMPLETED)
                if not receiving.done():  # what the worker said last may still be under way
                    await asyncio.wait({receiving}, timeout=_LAST_WORD_SECONDS)
            finally:
                loop.remove_reader(self._process.sentinel)
        if not receiving.done() or receiving.cancelled():
            return self._last_word()
        self._pending = None
        message: FromWorker = self._decoder.decode(receiving.result())
        self._fatal = self._fatal or isinstance(message, Fatal)
        return message

    def alive(self) -> bool:
        return not self._closed and self._process.is_alive()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._process.is_alive():
            with contextlib.suppress(zmq.ZMQError):
                self._to_worker.send(self._encoder.encode(Shutdown()), zmq.NOBLOCK)
            self._process.join(_CLOSE_SECONDS)
        self._to_worker.close()
        self._from_worker.close(linger=0)
        self._context.term()
        self._finalizer()
        atexit.unregister(self._finalizer)

    def _receiving(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[bytes]:
        """The receive under way. It outlives a cancelled :meth:`recv`, so that no message is lost with it."""
        if self._pending is None or self._pending.get_loop() is not loop:
            self._pending = asyncio.ensure_future(self._from_worker.recv())
        return self._pending

    def _last_word(self) -> FromWorker:
        """The worker's end as a message, if it did not say anything itself."""
        self._ended = True
        self._process.join(1.0)
        code = self._process.exitcode
        if self._fatal or (code == 0 and self._closed):
            raise ChannelClosed("the worker has ended")
        how = f"by signal {-code}" if code is not None and code < 0 else f"with status {code}"
        return Fatal(message=f"the worker process (pid {self._process.pid}) ended {how}")


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _stop(process: Any, folder: str) -> None:
    if process.is_alive():
        process.kill()
        process.join()
    shutil.rmtree(folder, ignore_errors=True)
