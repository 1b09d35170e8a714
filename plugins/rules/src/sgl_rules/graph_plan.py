"""The shape of a graph-capture plan (one entry per phase) and the sizes that are captured by default.

A plan is ``{"decode": phase, "prefill": phase}``; a phase has ``backend`` (``full``, ``breakable``, ``tc_piecewise``,
``disabled``), ``max_bs`` and ``bs`` (requests for decode, tokens for prefill), ``tc_compiler`` and two limits of
full-graph prefill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sgl_core.api.facts import Facts
from sgl_core.api.rules import View

from .machine import is_cuda

FULL = "full"
BREAKABLE = "breakable"
PIECEWISE = "tc_piecewise"
DISABLED = "disabled"
BACKENDS = (FULL, BREAKABLE, PIECEWISE, DISABLED)
PHASES = ("decode", "prefill")

REQUEST_FIELDS = (
    "disable_cuda_graph",
    "disable_prefill_cuda_graph",
    "disable_decode_cuda_graph",
    "cuda_graph_backend_decode",
    "cuda_graph_backend_prefill",
    "cuda_graph_max_bs_decode",
    "cuda_graph_max_bs_prefill",
    "cuda_graph_bs_decode",
    "cuda_graph_bs_prefill",
    "cuda_graph_tc_compiler",
)
"""The flags that :func:`requested` reads."""

Plan = dict[str, dict[str, Any]]


def plan_of(view: View, facts: Facts) -> Plan:
    """The plan as it stands; the platform's default before one was made."""
    plan = view.cuda_graph_config
    made = isinstance(plan, Mapping) and all("tc_compiler" in plan.get(phase, ()) for phase in PHASES)
    return {phase: dict(plan[phase]) for phase in PHASES} if made else default_plan(facts)


def default_plan(facts: Facts) -> Plan:
    """Whole graphs for decode; prefill graphs that may break, which the CUDA runner has and others compile for."""
    return {"decode": _phase(FULL), "prefill": _phase(BREAKABLE if is_cuda(facts) else PIECEWISE)}


def _phase(backend: str) -> dict[str, Any]:
    return {
        "backend": backend,
        "max_bs": None,
        "bs": None,
        "tc_compiler": "eager",
        "full_prefill_max_req": None,
        "full_prefill_prefix_chunk_tokens": None,
    }


def with_phase(plan: Plan, phase: str, **changes: Any) -> Plan:
    """The plan with some values of one phase replaced."""
    return {name: {**values, **(changes if name == phase else {})} for name, values in plan.items()}


def without_graphs(plan: Plan) -> Plan:
    """The plan with neither phase captured."""
    return with_phase(with_phase(plan, "decode", backend=DISABLED), "prefill", backend=DISABLED)


def requested(view: View) -> dict[tuple[str, str], Any]:
    """What flags and the JSON plan ask for, by (phase, key); the JSON plan wins."""
    asked: dict[tuple[str, str], Any] = {}
    if view.disable_cuda_graph:
        asked["decode", "backend"] = asked["prefill", "backend"] = DISABLED
    if view.disable_prefill_cuda_graph:
        asked["prefill", "backend"] = DISABLED
    if view.disable_decode_cuda_graph:
        asked["decode", "backend"] = DISABLED
    for phase in PHASES:
        for key, field in (
            ("backend", f"cuda_graph_backend_{phase}"),
            ("max_bs", f"cuda_graph_max_bs_{phase}"),
            ("bs", f"cuda_graph_bs_{phase}"),
            ("tc_compiler", "cuda_graph_tc_compiler"),
        ):
            value = getattr(view, field)
            if value is not None:
                asked[phase, key] = value
    given = view.given("cuda_graph_config")
    if isinstance(given, Mapping):
        for phase, values in given.items():
            if isinstance(values, Mapping):
                asked.update({(phase, key): value for key, value in values.items()})
    return asked


def locked(view: View) -> frozenset[tuple[str, str]]:
    """The (phase, key) pairs that were asked for and that defaults leave alone."""
    return frozenset(requested(view))


def prefill_sizes(largest: int) -> list[int]:
    """Token counts captured for prefill: steps that widen from 4 to 512 so that padding stays near ten percent."""
    return _upto(
        largest,
        range(4, 33, 4),
        range(48, 257, 16),
        range(288, 513, 32),
        range(576, 1025, 64),
        range(1280, 4097, 256),
        range(4608, largest + 1, 512),
    )


def decode_sizes(largest: int, *, padding: bool, speculative: bool) -> list[int]:
    """Batch sizes captured for decode. Speculative batches carry several tokens a request and get finer steps."""
    if not padding:
        return list(range(1, largest + 1))
    if speculative:
        steps = (range(1, 9), range(10, 33, 2), range(40, 65, 4), range(72, 257, 8), range(272, largest + 1, 16))
        sizes = _upto(largest, *steps)
    else:
        sizes = _upto(largest, (1, 2, 4, 8, 12), range(16, 257, 8), range(272, 512, 16), range(512, largest + 1, 32))
    return sizes if largest in sizes else [*sizes, largest]


def cpu_sizes(largest: int, *, padding: bool) -> list[int]:
    """Batch sizes captured on a CPU, where every size costs a compilation."""
    if not padding:
        return list(range(1, largest + 1))
    sizes = {*range(1, 17), *range(18, 31, 2), *range(32, 81, 4), *range(84, largest + 1, 8), largest}
    return sorted(size for size in sizes if size <= largest)


def _upto(largest: int, *steps: Iterable[int]) -> list[int]:
    return [size for step in steps for size in step if size <= largest]
