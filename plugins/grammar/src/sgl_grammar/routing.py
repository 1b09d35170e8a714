"""Routed: a backend that hands what it does not hold exactly to llguidance, so that a constraint is served whole or refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from sgl_core.api.grammar import CompiledGrammar, GrammarBackend, Vocabulary
from sgl_core.api.sampling import GrammarRequest

from .llguidance_backend import LlguidanceBackend


class Elsewhere(Exception):
    """This backend does not hold the constraint exactly; another must."""


class Routed:
    """A :class:`sgl_core.api.grammar.GrammarBackend` of two: ``first``, and llguidance for what it raises Elsewhere on."""

    def __init__(self, vocabulary: Vocabulary, first: Callable[[Vocabulary], GrammarBackend]) -> None:
        self._vocabulary = vocabulary
        self._first = first(vocabulary)

    def compile(self, request: GrammarRequest) -> CompiledGrammar:
        """Compile a constraint by the first backend that holds it. Raises :class:`GrammarError`."""
        try:
            return self._first.compile(request)
        except Elsewhere:
            return self._second.compile(request)

    @cached_property
    def _second(self) -> LlguidanceBackend:
        return LlguidanceBackend(self._vocabulary)
