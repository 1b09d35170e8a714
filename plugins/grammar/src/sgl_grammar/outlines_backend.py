"""outlines: a regular expression compiled to an automaton over tokens; compiling costs most, a step costs least."""

from __future__ import annotations

import json
import re

import numpy as np
from numpy.typing import NDArray
from outlines_core import Guide, Index
from outlines_core import Vocabulary as OutlinesVocabulary

from sgl_core.api.grammar import CompiledGrammar, GrammarError, Vocabulary
from sgl_core.api.sampling import GrammarRequest

from .routing import Elsewhere
from .vocabulary import TokenTable

MAX_PATTERN = 2_000
"""Characters of a pattern beyond which its automaton may take minutes; llguidance builds its lexer lazily and takes over."""


class OutlinesBackend:
    """A :class:`sgl_core.api.grammar.GrammarBackend` for regular expressions and choices."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._table = table = TokenTable(vocabulary)
        ids: dict[bytes | str, list[int]] = {}
        for token, text in enumerate(table.tokens):
            if text and token not in table.special:
                ids.setdefault(text, []).append(token)
        self._vocabulary = OutlinesVocabulary(table.eos[0], ids)

    def compile(self, request: GrammarRequest) -> CompiledGrammar:
        """Compile a constraint. Raises :class:`GrammarError`, or :class:`Elsewhere` for what another backend must hold."""
        if request.kind == "choice":
            pattern = "|".join(re.escape(c) for c in json.loads(request.text))
        elif request.kind == "regex":
            pattern = request.text
        else:
            raise Elsewhere(request.kind)
        if len(pattern) > MAX_PATTERN or re.search(r"\(\?|\\[bBpP1-9]|\^|\$", pattern):
            raise Elsewhere(request.kind)
        try:
            return _Compiled(Index(pattern, self._vocabulary), self._table.eos)
        except Exception as error:
            raise GrammarError(f"the {request.kind} constraint is not valid: {str(error)[:400]}") from error


class _Compiled:
    def __init__(self, index: Index, eos: tuple[int, ...]) -> None:
        self._index = index
        self._eos = eos

    def matcher(self) -> OutlinesMatcher:
        return OutlinesMatcher(Guide(self._index), self._eos)


class OutlinesMatcher:
    """A :class:`sgl_core.api.grammar.Matcher`."""

    def __init__(self, guide: Guide, eos: tuple[int, ...]) -> None:
        self._guide = guide
        self._eos = eos
        self._ended = False

    def accept(self, token_id: int) -> bool:
        if self._ended:
            return False
        if token_id in self._eos:
            self._ended = self._can_end()
            return self._ended
        if not self._guide.accepts_tokens([token_id]):
            return False
        self._guide.advance(token_id)
        return True

    def fill_mask(self, mask: NDArray[np.int32], row: int) -> None:
        words = mask[row]
        words[:] = 0
        allowed = [] if self._ended else [t for t in self._guide.get_tokens() if t not in self._eos]
        tokens = np.array([*allowed, *(self._eos if self._ended or self._can_end() else ())], dtype=np.int64)
        np.bitwise_or.at(words.view(np.uint32), tokens >> 5, np.left_shift(1, tokens & 31).astype(np.uint32))

    def finished(self) -> bool:
        return self._ended or set(self._guide.get_tokens()) <= set(self._eos)

    def forced(self) -> list[int]:
        return []

    def _can_end(self) -> bool:
        return self._eos[0] in self._guide.get_tokens()
