"""Observer: what is told of every request: metrics, request logs, crash dumps, hooks, traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sgl_core.engine.messages import Stats

from .choice import Choice
from .events import Event
from .run import Run


class Observer:
    """Told by the front, on its event loop. Must not raise; what it raises is logged and forgotten.

    Every choice of every run that was ``started`` is told once as ``finished``, however it ends.
    """

    def ready(self, capacity: dict[str, Any]) -> None:
        """The model is loaded."""

    def started(self, run: Run) -> None:
        """A run was accepted; nothing was sent to the worker yet."""

    def outputs(self, came: Sequence[tuple[Choice, int]], now: float) -> None:
        """Choices, with the count of tokens that came for each. Called once for every message of the worker, after
        the ends in it were told."""

    def delivered(self, seconds: float) -> None:
        """From a message's way out of the worker until its last stream was written."""

    def finished(self, choice: Choice, event: Event | None, now: float) -> None:
        """``event`` is the Finished or Failed, or None for a choice whose client left."""

    def stats(self, stats: Stats) -> None:
        """The worker's report, at most once a second."""

    def died(self, why: str) -> None:
        """The worker is gone. What still runs is told as finished after this."""
