"""The watchdog: a step that never ends ends the worker, with every thread's stack in the log, so that the front learns of it."""

from __future__ import annotations

import faulthandler
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger(__name__)

EXIT_STATUS = 70


class Watched(Protocol):
    """What a watchdog looks at: whether there is work, and when it last moved (time.monotonic)."""

    @property
    def busy(self) -> bool: ...

    last_turn: float


def watch_steps(
    loop: Watched, seconds: float | None, stop: Callable[[], None] | None = None
) -> threading.Thread | None:
    """Call ``stop`` (default: end the process with status 70) once a step takes longer than ``seconds``; None or 0 never does."""
    if not seconds or seconds <= 0:
        return None

    def watch() -> None:
        while True:
            time.sleep(min(seconds / 4, 5.0))
            if loop.busy and time.monotonic() - loop.last_turn > seconds:
                log.critical("a step has taken more than %g s (--watchdog-timeout): the worker ends", seconds)
                faulthandler.dump_traceback()
                (stop or _exit)()
                return

    thread = threading.Thread(target=watch, name="sgl-watchdog", daemon=True)
    thread.start()
    return thread


def _exit() -> None:
    os._exit(EXIT_STATUS)
