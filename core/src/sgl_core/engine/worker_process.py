"""The parent's hold on a worker process, which may be started before its plan is known: importing takes it a second."""

from __future__ import annotations

import atexit
import multiprocessing
import socket
import weakref
from collections.abc import Mapping
from typing import Any

from .worker_main import PLAN_HEAD, run_worker

_OUR_NAMES = ("SGL_", "SGLANG_")


class WorkerProcess:
    """Spawned at once; it imports what ``preload`` (a string target of the platform) says, then waits for its plan on ``link``.

    The interpreter's own exit would wait for a daemon process that ignores SIGTERM, so what was not ended is killed then.
    """

    def __init__(self, rank: int = 0, preload: str = "") -> None:
        self.link, theirs = socket.socketpair()
        self._preloads = bool(preload)
        self.process = multiprocessing.get_context("spawn").Process(
            target=run_worker, args=(theirs, rank, preload), name=f"sgl-worker-{rank}", daemon=True
        )
        self.process.start()
        theirs.close()
        self._finalizer = weakref.finalize(self, _stop, self.process)
        atexit.register(self._finalizer)

    def suits(self, env: Mapping[str, str]) -> bool:
        """Whether a plan that sets these variables can be given to it. Libraries read theirs once, when they are imported."""
        return not self._preloads or all(name.startswith(_OUR_NAMES) for name in env)

    @staticmethod
    def plan_bytes(plan: Any) -> bytes:
        """What must come first on the link. It holds the configuration's secrets."""
        body: bytes = plan.to_json().encode()
        return len(body).to_bytes(PLAN_HEAD, "little") + body

    def end(self) -> None:
        """Kill the process if it runs, and close the link. Safe to call twice."""
        self.link.close()
        self._finalizer()
        atexit.unregister(self._finalizer)


def _stop(process: Any) -> None:
    if process.is_alive():
        process.kill()
        process.join()
