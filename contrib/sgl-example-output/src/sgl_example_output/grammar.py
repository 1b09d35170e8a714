"""A grammar backend that knows choices only: a token is allowed while what it adds can still become one of the texts."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from sgl_core.api.grammar import CompiledGrammar, GrammarError, Vocabulary
from sgl_core.api.sampling import GrammarRequest


class WordsBackend:
    """Made once per worker from the model's vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._tokens = [vocabulary.token_bytes(i) for i in range(vocabulary.size)]
        self._eos = vocabulary.eos_token_ids

    def compile(self, request: GrammarRequest) -> CompiledGrammar:
        if request.kind == "choice":
            words = json.loads(request.text)
        elif request.text.strip("()|").replace("|", "").isalnum():
            words = request.text.strip("()").split("|")
        else:
            raise GrammarError("example_words holds alternatives of plain words only, such as (yes|no)")
        return _Words([word.encode() for word in words], self._tokens, self._eos)


class _Words:
    def __init__(self, words: list[bytes], tokens: list[bytes], eos: tuple[int, ...]) -> None:
        self.words, self.tokens, self.eos = words, tokens, eos

    def matcher(self) -> _Matcher:
        return _Matcher(self)


class _Matcher:
    """The state is the text so far."""

    def __init__(self, grammar: _Words) -> None:
        self._grammar = grammar
        self._text = b""
        self._ended = False

    def accept(self, token_id: int) -> bool:
        if token_id not in self._allowed():
            return False
        self._ended = token_id in self._grammar.eos
        self._text += self._grammar.tokens[token_id]
        return True

    def fill_mask(self, mask: NDArray[np.int32], row: int) -> None:
        words = mask[row].view(np.uint32)
        words[:] = 0
        for token in self._allowed():
            words[token // 32] |= np.uint32(1 << token % 32)

    def finished(self) -> bool:
        return self._ended or set(self._allowed()) <= set(self._grammar.eos)

    def forced(self) -> list[int]:
        return []

    def _allowed(self) -> list[int]:
        grammar, text = self._grammar, self._text
        going = [w for w in grammar.words if w.startswith(text)]
        fits = [i for i, piece in enumerate(grammar.tokens) if piece and any(w.startswith(text + piece) for w in going)]
        return [] if self._ended else [*fits, *(grammar.eos if text in grammar.words else ())]
