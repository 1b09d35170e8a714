"""What a worker process does: import what it needs, load the model of its plan, serve it until told to stop.

The process starts before anything is known of what it will do, so importing this module is quick. Two frames come first on its socket, of bytes
instead of msgpack: a target to preload, and the plan's JSON. Interrupts are ignored (the front leads the drain); the process ends when its parent does.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .loop import EngineLoop
    from .messages import FromWorker

log = logging.getLogger(__name__)

HEAD = 8
"""As of the messages: bytes of length (little-endian) before a frame."""
_SWITCH_SECONDS = 0.0002
"""How long a thread that does not wait may keep the interpreter. The usual 5 ms are a quarter of a step: filling the masks of a batch would hold up
the step that it is meant to overlap."""


def run_worker(link: socket.socket, rank: int) -> None:
    """Exit status 0 after Shutdown or where no plan came, 1 after a failure (reported as Fatal)."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    faulthandler.enable()
    sys.setswitchinterval(_SWITCH_SECONDS)
    _follow_parent()
    status = 1
    try:
        plan = _import_all(link)
        loop = None if plan is None else _load(plan, rank, link)
    except Exception as error:
        log.exception("the worker could not start")
        _tell_failure(link, error)
    else:
        try:
            if loop is not None:
                loop.run()
            status = 0
        except Exception:
            log.exception("the worker ends")
    link.close()
    os._exit(status)  # threads that hang (a compile, a device) must not keep a finished worker


def _import_all(link: socket.socket) -> str | None:
    """Import what every worker needs, then what the platform's needs; the plan's JSON, or None where the front wants no worker any more."""
    gc.disable()  # modules live as long as the process: collections need not look at them
    import sgl_core.engine.start
    import sgl_core.plan  # noqa: F401
    from sgl_core.registry.targets import import_target

    preload = _read(link)
    if preload:
        import_target(preload)()
    gc.freeze()
    gc.enable()
    return None if preload is None else _read(link)


def _read(link: socket.socket) -> str | None:
    """The text of one frame; None at the end of the socket."""
    head = link.recv(HEAD, socket.MSG_WAITALL)
    size = int.from_bytes(head, "little")
    body = link.recv(size, socket.MSG_WAITALL) if size else b""
    return body.decode() if len(head) == HEAD and len(body) == size else None


def _load(text: str, rank: int, link: socket.socket) -> EngineLoop:
    from sgl_core.plan import Plan

    from .frames import FrameWriter
    from .inbox import SocketInbox
    from .messages import Progress
    from .start import make_loop
    from .watchdog import watch_steps

    writer = FrameWriter()

    def send(message: FromWorker) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the front is gone, which the inbox tells
            link.sendall(writer.frame(message))

    def progress(what: str, done: int, total: int) -> None:
        send(Progress(what=what, done=done, total=total))

    plan = Plan.from_json(text)
    level = (plan.config.get("log_level") or "info").upper()
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    os.environ.update(plan.env)
    loop = make_loop(plan, rank, SocketInbox(link), send, progress)
    watch_steps(loop, plan.config.get("watchdog_timeout"))
    gc.collect()
    gc.freeze()  # so does the model
    return loop


def _tell_failure(link: socket.socket, error: Exception) -> None:
    import traceback

    from .frames import FrameWriter
    from .messages import Fatal

    trace = "".join(traceback.format_exception(error))
    with contextlib.suppress(OSError):
        link.sendall(FrameWriter().frame(Fatal(message=f"{type(error).__name__}: {error}", traceback=trace)))


def _follow_parent() -> None:
    """End this process when its parent has ended, however that happened."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="sgl-parent-watch", daemon=True).start()
