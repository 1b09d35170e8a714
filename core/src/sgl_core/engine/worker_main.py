"""What a worker process does: import what it needs, wait for its plan, load the model, serve it until told to stop.

The process is started before there is a plan, so this module imports nothing slow. It ignores interrupts (the front leads the drain) and ends
when its parent does.
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

PLAN_HEAD = 8
"""Bytes of length (little-endian) before the plan's JSON, which is the first thing on the socket."""
_SWITCH_SECONDS = 0.0002
"""How long a thread that does not wait may keep the interpreter. The usual 5 ms are a quarter of a step: filling the masks of a batch would hold up
the step that it is meant to overlap."""


def run_worker(link: socket.socket, rank: int, preload: str) -> None:
    """Call the target ``preload`` (if any), read the plan, load its model and serve it until told to stop.

    Exit status 0 after Shutdown or without a plan, 1 after a failure (reported as Fatal).
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    faulthandler.enable()
    sys.setswitchinterval(_SWITCH_SECONDS)
    _follow_parent()
    status = 1
    try:
        _import(preload)
        plan_json = _read_plan(link)
        loop = None if plan_json is None else _load(plan_json, rank, link)
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


def _import(preload: str) -> None:
    """Everything that does not depend on the plan. Modules live as long as the process: collections need not look at them."""
    from sgl_core.registry.targets import import_target

    gc.disable()
    if preload:
        import_target(preload)()
    import sgl_core.engine.start
    import sgl_core.plan  # noqa: F401

    gc.freeze()
    gc.enable()


def _read_plan(link: socket.socket) -> str | None:
    """The plan's JSON; None where the front wants no worker any more."""
    head = link.recv(PLAN_HEAD, socket.MSG_WAITALL)
    size = int.from_bytes(head, "little")
    body = link.recv(size, socket.MSG_WAITALL) if len(head) == PLAN_HEAD else b""
    return body.decode() if body and len(body) == size else None


def _load(plan_json: str, rank: int, link: socket.socket) -> EngineLoop:
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

    plan = Plan.from_json(plan_json)
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
