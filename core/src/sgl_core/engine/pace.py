"""PrefillPace: how many prompt tokens fit into a time, by what they cost in the steps before."""

from __future__ import annotations

LEAST = 32
"""Tokens. No chunk is cut smaller, no smaller rest is left for a step of its own, and steps of fewer tokens teach nothing: what is the
same for every step would count as theirs."""
_FIRST = 256
"""Tokens of a bounded chunk before anything was measured."""
_ENOUGH = 0.5
"""Part of the bound that must be left for another prefill step: a short one costs nearly what a long one does."""
_KEPT = 0.7
"""A cost that falls is believed by and by, one that rises at once."""


class PrefillPace:
    """``bound`` is the time in seconds that requests which decode may wait for prefill steps; 0 is no bound."""

    def __init__(self, bound: float) -> None:
        self._bound = bound
        self._cost = 0.0
        """Seconds a token; 0 until one is known."""
        self._waited = 0.0
        """Seconds of prefill steps since requests last decoded."""

    @property
    def may_go_on(self) -> bool:
        """Whether another prefill step fits in before the next decode step."""
        return self._waited < (1 - _ENOUGH) * self._bound

    def delayed(self, seconds: float) -> None:
        """A prefill step of so many seconds ran while requests waited to decode."""
        self._waited += seconds

    def decoded(self) -> None:
        """Those requests have their next step."""
        self._waited = 0.0

    def note(self, tokens: int, seconds: float) -> None:
        """A step computed so many prompt tokens in that time."""
        if tokens >= LEAST:
            cost = seconds / tokens
            self._cost = max(cost, _KEPT * self._cost + (1 - _KEPT) * cost)

    def tokens(self, most: int) -> int:
        """Prompt tokens that a step beside decoding requests may have, at most ``most``."""
        if not self._bound:
            return most
        fitting = int((self._bound - self._waited) / self._cost) if self._cost else _FIRST
        return min(most, max(fitting, LEAST))
