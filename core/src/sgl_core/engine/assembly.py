"""Putting a scheduler together from a worker, its capacity and the limits; policies come by name from a registry."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

from sgl_core.api.worker import Capacity, ModelWorker

from .gathering import Gathering
from .grammars import Grammars, GrammarTools
from .holdings import Holdings
from .limits import EngineLimits
from .pace import PrefillPace
from .pages import PageAllocator
from .scheduler import Scheduler
from .sharing import PrefixSharing
from .slots import SlotTable
from .specs import BUILT_IN
from .state import EngineState
from .waiting import WaitingQueue

Load = Callable[[str, str], Any]
"""(registry, name) -> the object that the entry stands for."""


def load_built_in(registry: str, name: str) -> Any:
    """The engine's own entries, without any scan. Raises ValueError for a name it does not have."""
    spec = BUILT_IN[registry].get(name)
    if spec is None or not spec.available:
        known = ", ".join(known for known, entry in BUILT_IN[registry].items() if entry.available)
        raise ValueError(f"{registry}: no {name!r} here; there are {known}")
    module, attribute = spec.target.split(":")
    return getattr(importlib.import_module(module), attribute)


def assemble(
    worker: ModelWorker,
    capacity: Capacity,
    limits: EngineLimits,
    *,
    load: Load = load_built_in,
    make_grammar_tools: Callable[[], GrammarTools] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Scheduler:
    """A scheduler over a loaded worker. Raises what the registry raises for a policy that is not there."""
    allocator = PageAllocator(capacity.num_pages, capacity.page_size)
    eviction = load("eviction_policies", limits.radix_eviction_policy)(**limits.radix_eviction_policy_config)
    cache = load("prefix_caches", "none" if limits.disable_radix_cache else "radix")(allocator, eviction)
    slots = SlotTable(capacity.max_requests, capacity.page_size)
    sign = 0
    if limits.enable_priority_scheduling:
        sign = 1 if limits.schedule_low_priority_values_first else -1
    policy = load("schedule_policies", limits.schedule_policy)()
    asked = limits.prefill_step_ms
    bound = capacity.prefill_step_seconds if asked is None else asked / 1000
    state = EngineState(
        limits=limits,
        capacity=capacity,
        holdings=Holdings(allocator, cache, slots),
        slots=slots,
        queue=WaitingQueue(policy, sign),
        sharing=PrefixSharing(capacity.page_size, limits.share_wait_steps),
        pace=PrefillPace(bound),
        gathering=Gathering(bound),
    )
    grammars = Grammars(
        make_grammar_tools,
        timeout=limits.grammar_timeout,
        cache_size=limits.grammar_cache_size,
        clock=clock,
    )
    return Scheduler(state, worker, grammars, sign, clock)
