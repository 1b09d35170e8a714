"""ThreadPilot: fewer threads while busy neighbours hold the cores that ours wait for, and all of them again afterwards.

The threads of an op wait for each other, so one that is put aside by the operating system stops them all: two threads on a machine
whose neighbours take half of it decode slower than one does (measured: 57 against 94 tokens/s). Which count is best now is tried,
not guessed: a few steps with another count, whose results are the same bits.
"""

from __future__ import annotations

import resource
import time
from collections import deque
from collections.abc import Callable, Hashable

STEPS = 12
"""Steps of a trial, and of the record that it is compared with."""
_BETTER = 0.92
"""A trial wins where its mean step takes at most this share of the record's."""
_PAUSE = 2.0
_SHARE = 25
"""A trial comes at most every ``_PAUSE`` seconds, and takes at most one part in so many of the time."""
_PREEMPTED = 0.25
"""Preemptions a step from which neighbours are suspected."""


def preemptions() -> int:
    """How often threads of this process lost their core against their will so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class ThreadPilot:
    """``set_threads`` sizes the pool. Steps of one ``key`` (a batch size) are comparable; calls come from one thread."""

    def __init__(
        self,
        full: int,
        set_threads: Callable[[int], object],
        *,
        clock: Callable[[], float] = time.perf_counter,
        preempted: Callable[[], int] = preemptions,
    ) -> None:
        self._full = full
        self._set = set_threads
        self._clock = clock
        self._preempted = preempted
        self._threads = self._best = full
        self._key: Hashable = None
        self._record: deque[float] = deque(maxlen=STEPS)
        self._trial: list[float] | None = None
        self._trials = 0
        self._next_trial = 0.0
        self._seen = preempted()
        self._counted = 0

    @property
    def threads(self) -> int:
        """Threads now."""
        return self._threads

    def all_threads(self) -> None:
        """For long steps, whose ops are so large that waiting for a thread costs them little."""
        if self._threads != self._full:
            self._use(self._full)

    def run(self, key: Hashable, step: Callable[[], None]) -> None:
        """Run a decode step and learn from its time."""
        if self._full == 1:
            step()
            return
        if key != self._key:
            self._key, self._trial = key, None
            self._record.clear()
        wanted = self._best if self._trial is None else self._other()
        if wanted != self._threads:
            self._use(wanted)
        start = self._clock()
        step()
        end = self._clock()
        if self._trial is None:
            self._record.append(end - start)
            self._counted += 1
            if len(self._record) == STEPS and end >= self._next_trial and self._suspicious():
                self._trial = []
        else:
            self._trial.append(end - start)
            if len(self._trial) > STEPS:
                self._decide(end)

    def _suspicious(self) -> bool:
        """Whether a trial is worth its time: threads were put aside, or fewer than all compute."""
        now = self._preempted()
        rate = (now - self._seen) / self._counted
        self._seen, self._counted = now, 0
        return self._best < self._full or rate >= _PREEMPTED

    def _other(self) -> int:
        """The count to try: half of all; where fewer compute already, twice as many and half as many in turns."""
        if self._best == self._full or (self._best > 1 and self._trials % 2):
            return self._best // 2
        return min(self._full, 2 * self._best)

    def _decide(self, now: float) -> None:
        assert self._trial is not None
        counted = self._trial[1:]  # the first step pays for the change
        if sum(counted) / len(counted) <= _BETTER * sum(self._record) / len(self._record):
            self._best = self._other()
        self._trials += 1
        self._next_trial = now + max(_PAUSE, _SHARE * sum(self._trial))
        self._trial = None
        self._record.clear()

    def _use(self, threads: int) -> None:
        self._set(threads)
        self._threads = threads
