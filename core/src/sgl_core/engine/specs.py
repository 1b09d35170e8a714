"""The engine's own registry entries: eviction and schedule policies, prefix caches, and the null platform."""

from __future__ import annotations

from sgl_core.api.specs import ChoiceSpec, GrammarSpec, Option, PlatformSpec

_EVICTIONS = "sgl_core.engine.evictions"
LRU = ChoiceSpec(name="lru", target=f"{_EVICTIONS}:Lru", summary="least recently used first")
LFU = ChoiceSpec(name="lfu", target=f"{_EVICTIONS}:Lfu", summary="least often used first")
SLRU = ChoiceSpec(name="slru", target=f"{_EVICTIONS}:Slru", summary="LRU that protects what was used more than once")
PRIORITY_EVICTION = ChoiceSpec(
    name="priority", target=f"{_EVICTIONS}:Priority", summary="pages of the least important requests first"
)
FIFO = ChoiceSpec(name="fifo", target=f"{_EVICTIONS}:Fifo", summary="oldest first")

_POLICIES = "sgl_core.engine.policies"
FCFS = ChoiceSpec(name="fcfs", target=f"{_POLICIES}:Fcfs", summary="first come, first served")
LPM = ChoiceSpec(name="lpm", target=f"{_POLICIES}:Lpm", summary="longest cached prefix first")
LOF = ChoiceSpec(name="lof", target=f"{_POLICIES}:Lof", summary="longest output first")
RANDOM = ChoiceSpec(name="random", target=f"{_POLICIES}:Random", summary="any order")
PRIORITY = ChoiceSpec(name="priority", target=f"{_POLICIES}:ByPriority", summary="greatest priority value first")
DFS_WEIGHT = ChoiceSpec(
    name="dfs-weight",
    summary="by branches of the prefix tree",
    available=False,
    unavailable_because="not served yet; lpm also keeps requests with one prefix together",
)
ROUTING_KEY = ChoiceSpec(
    name="routing-key",
    summary="by the routing keys of running requests",
    available=False,
    unavailable_because="not served yet: requests carry no routing key",
)

RADIX = ChoiceSpec(name="radix", target="sgl_core.engine.radix:RadixCache", summary="radix tree over token pages")
NO_CACHE = ChoiceSpec(name="none", target="sgl_core.engine.no_cache:NoCache", summary="remembers nothing")

NO_GRAMMAR = GrammarSpec(
    name="none", target="sgl_core.engine.grammars:no_backend", summary="refuse every request with an output constraint"
)

NULL = PlatformSpec(
    name="null",
    target="sgl_core.engine.null_worker:NullRuntime",
    probe="sgl_core.engine.null_worker:probe",
    probe_order=-1000,
    flags=frozenset({"no_model"}),
    serves=("max_total_tokens",),
    options=(Option(name="null.step_seconds", type=float, default=0.0, help="How long a step pretends to take."),),
    summary="computes nothing: deterministic made-up tokens, to test and measure serving (only with --device null)",
)

BUILT_IN: dict[str, dict[str, ChoiceSpec]] = {
    "eviction_policies": {spec.name: spec for spec in (LRU, LFU, SLRU, PRIORITY_EVICTION, FIFO)},
    "schedule_policies": {spec.name: spec for spec in (FCFS, LPM, LOF, RANDOM, PRIORITY, DFS_WEIGHT, ROUTING_KEY)},
    "prefix_caches": {spec.name: spec for spec in (RADIX, NO_CACHE)},
}
"""The same specs by registry and name, for a scheduler that is put together without a plan."""
