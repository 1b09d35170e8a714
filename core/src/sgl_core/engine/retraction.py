"""Retraction: when pages or places run out, which running request goes back to the queue. Its output is kept."""

from __future__ import annotations

from collections.abc import Iterable

from .request import Request
from .state import EngineState


def victim(state: EngineState, among: Iterable[Request], sign: int) -> Request | None:
    """The request whose retraction costs least: fewest output tokens, then the longest prompt (``retraction_policy`` length),
    after the least important where priorities count (``priority``, or ``sign`` not 0)."""
    by_priority = state.limits.retraction_policy == "priority" or sign != 0
    direction = sign or -1

    def cost(request: Request) -> tuple[int, int, int, int]:
        importance = -direction * request.priority if by_priority else 0
        return importance, len(request.output_ids), -len(request.tokens), -request.seq

    return min(among, key=cost, default=None)


def preemptable(state: EngineState, head: Request, sign: int) -> Request | None:
    """Whom a waiting request may displace: somebody less important by at least the configured threshold."""
    loser = victim(state, state.running(), sign)
    if (
        loser is None
        or sign * loser.priority - sign * head.priority < state.limits.priority_scheduling_preemption_threshold
    ):
        return None
    return loser
