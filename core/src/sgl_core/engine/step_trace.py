"""StepTrace: the engine's steps as a timeline in the Trace Event Format, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .state import Flight

MOST = 200_000
"""Spans kept; a recording that was forgotten ends there."""
_LANES = {"schedule": 0, "compute": 1, "collect": 2}


class StepTrace:
    """Records from step number ``start`` on (counted from its making) ``steps`` steps, 0 for all until it is written."""

    def __init__(self, folder: Path, steps: int = 0, start: int = 0) -> None:
        self.folder = folder
        self._steps = steps
        self._start = start
        self._seen = 0
        self._events: list[dict[str, Any]] = []

    @classmethod
    def from_request(cls, args: Mapping[str, Any]) -> StepTrace:
        """From the fields of ``/start_profile``; what only other profilers know (stacks, shapes) is left aside.

        Raises ValueError for a folder that cannot be written and for numbers below their least.
        """
        steps, start = args.get("num_steps") or 0, args.get("start_step") or 0
        for name, value in (("num_steps", steps), ("start_step", start)):
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"{name} must be a whole number from 0 up, not {value!r}")
        folder = Path(args.get("output_dir") or Path(tempfile.gettempdir()) / "sgl-profile")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"output_dir {folder}: {error.strerror}") from None
        if not os.access(folder, os.W_OK):
            raise ValueError(f"output_dir {folder}: the server may not write there")
        return cls(folder, steps, start)

    @property
    def full(self) -> bool:
        """Whether everything that was asked for is recorded."""
        return len(self._events) >= MOST or bool(self._steps and self._seen >= self._start + self._steps)

    def step(self, flight: Flight, ended: float, collected: float) -> None:
        """A step that was built from ``flight.built`` on, could start at ``flight.began`` and ended; seconds of one clock."""
        self._seen += 1
        if self._seen <= self._start:
            return
        prompt = sum(chunk.count for chunk in flight.chunks)
        rows = len(flight.slots) - len(flight.chunks)
        what = " + ".join([f"decode {rows}"] * (rows > 0) + [f"prefill {prompt}"] * (prompt > 0))
        about = {"step": flight.step_id, "decode_rows": rows, "prompt_tokens": prompt, "chunks": len(flight.chunks)}
        self._span("schedule", "schedule", flight.built, flight.submitted, {"step": flight.step_id})
        self._span("compute", what, flight.began, ended, about)
        self._span("collect", "collect", ended, collected, {"step": flight.step_id})

    def write(self) -> Path:
        """Write the file and give its path."""
        lanes = [
            {"ph": "M", "name": "thread_name", "pid": os.getpid(), "tid": lane, "args": {"name": name}}
            for name, lane in _LANES.items()
        ]
        path = self.folder / f"{time.time():.3f}-worker-{os.getpid()}.trace.json"
        path.write_text(json.dumps({"traceEvents": [*lanes, *self._events], "displayTimeUnit": "ms"}))
        return path

    def _span(self, lane: str, name: str, began: float, ended: float, args: dict[str, Any]) -> None:
        self._events.append(
            {
                "ph": "X",
                "name": name,
                "pid": os.getpid(),
                "tid": _LANES[lane],
                "ts": 1e6 * began,
                "dur": 1e6 * max(0.0, ended - began),
                "args": args,
            }
        )
