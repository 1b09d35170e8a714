"""The parent's hold on a worker process, which is started before its plan is known: importing takes it more than a second."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import socket
import weakref
from collections.abc import Mapping
from typing import Any

from .worker_main import HEAD, run_worker

_OUR_NAMES = ("SGL_", "SGLANG_")


class WorkerProcess:
    """Spawned at once. It imports what every worker needs, then waits on ``link`` for :meth:`preload` and its plan.

    The interpreter's own exit would wait for a daemon process that ignores SIGTERM, so what was not ended is killed then.
    """

    def __init__(self, rank: int = 0) -> None:
        self.link, theirs = socket.socketpair()
        self._preloads: str | None = None
        self.process = multiprocessing.get_context("spawn").Process(
            target=run_worker, args=(theirs, rank), name=f"sgl-worker-{rank}", daemon=True
        )
        self.process.start()
        theirs.close()
        self._finalizer = weakref.finalize(self, _stop, self.process)
        atexit.register(self._finalizer)

    def preload(self, target: str) -> None:
        """Have the platform's ``preload`` called, if it has one."""
        self._preloads = target
        with contextlib.suppress(OSError):  # it has ended, which the channel tells
            self.link.sendall(_frame(target))

    def suits(self, env: Mapping[str, str]) -> bool:
        """Whether a plan that sets these variables can be given to it. Libraries read theirs once, when they are imported."""
        return not self._preloads or all(name.startswith(_OUR_NAMES) for name in env)

    def first_frames(self, plan: Any) -> bytes:
        """What it still has to be sent before any message. It holds the configuration's secrets."""
        return (_frame("") if self._preloads is None else b"") + _frame(plan.to_json())

    def close(self) -> None:
        """Kill the process if it runs, and close the link. Safe to call twice."""
        self.link.close()
        self._finalizer()
        atexit.unregister(self._finalizer)


def _frame(text: str) -> bytes:
    body = text.encode()
    return len(body).to_bytes(HEAD, "little") + body


def _stop(process: Any) -> None:
    if process.is_alive():
        process.kill()
        process.join()
