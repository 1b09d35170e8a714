"""Gathering: clients whose answers ended together come back together, and their prompts make one prefill step."""

from __future__ import annotations

_TOGETHER = 0.02
"""Seconds. Ends and arrivals further apart have nothing to do with each other."""
_PART = 0.5
"""Of the bound of a prefill step: longer nobody is waited for, however many come."""


class Gathering:
    """Who sends prompts in a loop, a batch job say, sends the next one a few milliseconds after an answer. The first of several would
    be computed alone while the others are on their way, in a step that costs nearly what one for all does. ``bound`` is that of
    :class:`~.pace.PrefillPace` in seconds; 0 waits for nobody. Times are seconds of one clock."""

    def __init__(self, bound: float) -> None:
        self._most = _PART * bound
        self._missing = 0
        self._first = self._latest = 0.0

    def ended(self, now: float) -> None:
        """An answer is complete."""
        if self._missing <= 0 or now - self._latest > _TOGETHER:
            self._missing, self._first = 0, now
        self._missing += 1
        self._latest = now

    def came(self, now: float) -> None:
        """A request arrived."""
        self._missing = self._missing - 1 if now - self._latest <= _TOGETHER else 0
        self._latest = now

    def left(self, now: float) -> float:
        """Seconds for which those that are here should wait for the others; 0 where all have come, or nobody did in time."""
        if self._missing <= 0:
            return 0.0
        return max(0.0, min(self._latest + _TOGETHER, self._first + self._most) - now)
