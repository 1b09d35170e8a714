"""EngineState: what the parts of the scheduler share. One value, made once, passed to each part."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from sgl_core.api.worker import Capacity, Ints, NewRequest, Step

from .gathering import Gathering
from .holdings import Holdings
from .limits import EngineLimits
from .pace import PrefillPace
from .request import Request
from .sharing import PrefixSharing
from .slots import SlotTable
from .waiting import WaitingQueue


@dataclass(slots=True)
class Chunk:
    """One row of a step that computes ``count`` tokens of a request's prompt from ``start`` on; ``last`` ends its prefill."""

    request: Request
    row: int
    start: int
    count: int
    last: bool


@dataclass(slots=True)
class Flight:
    """A step under way: its rows (slots), which of them are sampled (row numbers), and its prefill chunks."""

    step: Step | None
    step_id: int
    slots: Ints
    sampled: Ints
    chunks: list[Chunk]
    delays: bool = False
    """Whether it is of prompts alone while other requests could decode."""
    built: float = 0.0
    """When the scheduler began with it."""
    submitted: float = 0.0
    began: float = 0.0
    """When the step could start: at its submission, or when the one before it ended."""


@dataclass(slots=True)
class Counters:
    """Totals since the start."""

    retractions: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    jumped_tokens: int = 0
    """Those of them that a constraint forced and no step sampled."""
    cached_prompt_tokens: int = 0
    step_seconds: float = 0.0
    """Time spent in turns that did something: the engine's busy time."""
    steps: int = 0


@dataclass(slots=True)
class EngineState:
    """``prefilling`` is in order of admission; ``jumping`` have output tokens at their end that were appended without a step and are
    computed beside the next decodes; ``newcomers`` have not been told to the worker yet."""

    limits: EngineLimits
    capacity: Capacity
    holdings: Holdings
    slots: SlotTable
    queue: WaitingQueue
    sharing: PrefixSharing
    pace: PrefillPace
    gathering: Gathering
    prefilling: list[Request] = field(default_factory=list)
    jumping: list[Request] = field(default_factory=list)
    newcomers: list[NewRequest] = field(default_factory=list)
    flights: deque[Flight] = field(default_factory=deque)
    last_step: int = -1
    """The latest step submitted."""
    done_step: int = -1
    """The latest step taken in."""
    groups: dict[str, list[int]] = field(default_factory=dict)
    """Group name to [cached tokens of its first admitted member or -1, members alive]."""
    counters: Counters = field(default_factory=Counters)

    def running(self) -> list[Request]:
        """Every request that has a slot."""
        return [request for request in self.slots.requests if request is not None]

    def running_count(self) -> int:
        return int(np.count_nonzero(self.slots.live))
