"""PrefillPace: how many prompt tokens fit into a time, by what they cost in the steps before."""

from __future__ import annotations

_FIRST = 256
"""Tokens of a bounded chunk before anything was measured."""
_LEAST = 32
"""No chunk is cut smaller, and steps of fewer tokens teach nothing: what is the same for every step would count as theirs."""
_KEPT = 0.7
"""A cost that falls is believed by and by, one that rises at once."""


class PrefillPace:
    """``bound`` is the time in seconds that a prefill step may take while requests decode; 0 is no bound."""

    def __init__(self, bound: float) -> None:
        self._bound = bound
        self._cost = 0.0
        """Seconds a token; 0 until one is known."""

    def note(self, tokens: int, seconds: float) -> None:
        """A step computed so many prompt tokens in that time."""
        if tokens >= _LEAST:
            cost = seconds / tokens
            self._cost = max(cost, _KEPT * self._cost + (1 - _KEPT) * cost)

    def tokens(self, most: int) -> int:
        """Prompt tokens that a step beside decoding requests may have, at most ``most``."""
        if not self._bound:
            return most
        fitting = int(self._bound / self._cost) if self._cost else _FIRST
        return min(most, max(fitting, _LEAST))
