"""Strict thinking: what must not come while a model thinks, such as its tool-call markers or the end of its answer."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

_TAIL = 16
"""How many tokens back a marker may begin."""


class Excluded:
    """Texts and tokens that are never allowed. A text may be spelled by tokens of any cut: the one that would complete it is struck out.

    ``token_bytes`` gives the bytes of each of ``size`` tokens, none for special ones; those are excluded by their ids, ``never``.
    """

    def __init__(
        self, texts: Iterable[bytes], never: Iterable[int], token_bytes: Callable[[int], bytes], size: int
    ) -> None:
        self._token_bytes = token_bytes
        self._words = -(-size // 32)
        pieces = sorted((token_bytes(token), token) for token in range(size))
        within = [token for piece, token in pieces if any(text in piece for text in texts)]
        self._never = self._all_but([*never, *within])
        self._completing = {
            text[:begun]: self._all_but(_beginning(pieces, text[begun:]))
            for text in texts
            for begun in range(1, len(text))
        }

    def strike(self, mask: NDArray[np.int32], row: int, output_ids: Sequence[int]) -> None:
        """Take from ``mask[row]`` what must not come behind ``output_ids``."""
        mask[row] &= self._never
        tail = b"".join(self._token_bytes(token) for token in output_ids[-_TAIL:])
        for begun, kept in self._completing.items():
            if tail.endswith(begun):
                mask[row] &= kept

    def _all_but(self, tokens: Iterable[int]) -> NDArray[np.int32]:
        kept = np.full(self._words, -1, np.int32)
        struck = np.fromiter(tokens, np.int64)
        np.bitwise_and.at(kept.view(np.uint32), struck >> 5, ~np.left_shift(1, struck & 31).astype(np.uint32))
        return kept


class Unbound:
    """A matcher, and its own compiled grammar, that holds nothing: for answers of which only the thinking is held."""

    def matcher(self) -> Unbound:
        return self

    def accept(self, token_id: int) -> bool:
        return True

    def fill_mask(self, mask: NDArray[np.int32], row: int) -> None:
        mask[row] = -1

    def finished(self) -> bool:
        return False

    def forced(self) -> list[int]:
        return []


def _beginning(pieces: list[tuple[bytes, int]], text: bytes) -> Iterable[int]:
    """Tokens that begin with a text; ``pieces`` are (bytes, token) in order."""
    at = bisect_left(pieces, (text,))
    while at < len(pieces) and pieces[at][0].startswith(text):
        yield pieces[at][1]
        at += 1
