"""The tape: ops of a step recorded once over fixed buffers and replayed by one library call, with no Python between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .library import OpsError, check, load


class Tape:
    """A recorded sequence of ops. Addresses are recorded, not contents: keep the buffers alive and refill them before a replay.

    What the library cannot record breaks the tape: ``call`` puts a Python function between two recorded segments.
    """

    def __init__(self) -> None:
        self._parts: list[int | Callable[[], Any]] = []
        self._keep: list[Any] = []
        self._open = False

    @contextmanager
    def record(self) -> Iterator[Tape]:
        """Inside the block this thread's ops are recorded and not run. Recordings do not nest; a second block appends."""
        self._begin()
        try:
            yield self
        finally:
            self._end()

    def _begin(self) -> None:
        handle = load().sgl_tape_new()
        if load().sgl_tape_begin(handle):
            load().sgl_tape_free(handle)
            check(-1)
        self._parts.append(handle)
        self._open = True

    def _end(self) -> None:
        check(load().sgl_tape_end())
        self._open = False

    def call(self, function: Callable[[], Any]) -> None:
        """Break the recording: ``function`` runs at this point of every replay. Only inside ``record``."""
        if not self._open:
            raise OpsError("tape: call() belongs inside `with tape.record():`")
        self._end()
        self._parts.append(function)
        self._begin()

    def keep(self, *objects: Any) -> None:
        """Hold references to buffers for as long as the tape lives."""
        self._keep.extend(objects)

    def replay(self) -> None:
        """Run everything in order; the GIL is released inside each recorded segment."""
        lib = load()
        for part in self._parts:
            if isinstance(part, int):
                check(lib.sgl_tape_replay(part))
            else:
                part()

    @property
    def breaks(self) -> int:
        """How many Python functions interrupt the tape."""
        return sum(not isinstance(p, int) for p in self._parts)

    def __len__(self) -> int:
        lib = load()
        return sum(int(lib.sgl_tape_size(p)) if isinstance(p, int) else 1 for p in self._parts)

    def profile(self, repeats: int = 1) -> dict[str, tuple[int, float]]:
        """Replay ``repeats`` times and give {op: (count, seconds per replay)}; Python parts run too, under ``python``."""
        import time

        lib = load()
        found: dict[str, list[float]] = {}
        for _ in range(repeats):
            for part in self._parts:
                if not isinstance(part, int):
                    start = time.perf_counter()
                    part()
                    entry = found.setdefault("python", [0, 0.0])
                    entry[0] += 1
                    entry[1] += time.perf_counter() - start
                    continue
                size = int(lib.sgl_tape_size(part))
                ns = np.zeros(max(size, 1), dtype=np.int64)
                check(lib.sgl_tape_profile(part, ns.ctypes.data))
                for i in range(size):
                    entry = found.setdefault(lib.sgl_tape_name(part, i).decode(), [0, 0.0])
                    entry[0] += 1
                    entry[1] += float(ns[i]) * 1e-9
        return {name: (int(n) // repeats, seconds / repeats) for name, (n, seconds) in found.items()}

    def close(self) -> None:
        """Free the recorded segments."""
        parts, self._parts = self._parts, []
        for part in parts:
            if isinstance(part, int):
                load().sgl_tape_free(part)

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # interpreter shutdown: the library may be gone already
            pass
