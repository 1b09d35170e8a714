"""The factories that the entry points name: ``factory(vocabulary) -> GrammarBackend``, each importing only its own library."""

from __future__ import annotations

from sgl_core.api.grammar import GrammarBackend, Vocabulary


def llguidance(vocabulary: Vocabulary) -> GrammarBackend:
    """llguidance alone."""
    from .llguidance_backend import LlguidanceBackend

    return LlguidanceBackend(vocabulary)


def xgrammar(vocabulary: Vocabulary) -> GrammarBackend:
    """xgrammar, with llguidance behind it."""
    from .routing import Routed
    from .xgrammar_backend import XgrammarBackend

    return Routed(vocabulary, XgrammarBackend)


def outlines(vocabulary: Vocabulary) -> GrammarBackend:
    """outlines, with llguidance behind it."""
    from .outlines_backend import OutlinesBackend
    from .routing import Routed

    return Routed(vocabulary, OutlinesBackend)
