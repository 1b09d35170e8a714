"""A request's constraint while it generates: the matcher, and whether its reasoning block has ended yet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sgl_core.api.grammar import GrammarError, Matcher

from .thinking import Excluded, Unbound

log = logging.getLogger(__name__)


_TAIL = 16
"""How many tokens back an end marker may begin."""


@dataclass(frozen=True, slots=True)
class ReasoningEnd:
    """The marker that ends a reasoning block: the ids it usually has, and its text for when tokens run across its borders.

    ``begin`` holds the ids of the marker by which the model opens the block itself; empty where it cannot.
    """

    ids: tuple[int, ...]
    text: bytes = b""
    token_bytes: Callable[[int], bytes] | None = None
    begin: tuple[int, ...] = ()

    def reached(self, output_ids: Sequence[int]) -> bool:
        """Whether the last token completed the marker."""
        if self.ids and tuple(output_ids[-len(self.ids) :]) == self.ids:
            return True
        if self.token_bytes is None or not self.text:
            return False
        tail = [self.token_bytes(token) for token in output_ids[-_TAIL:]]
        return self.text in b"".join(tail) and self.text not in b"".join(tail[:-1])


@dataclass(slots=True, eq=False)
class Constraint:
    """``reasoning_end`` None means that the constraint holds from the first token. A matcher that raises makes ``advance``
    answer false from then on; it never stops the step.

    ``opening`` is what is left of the marker by which the model may open a reasoning block as its first output: at its first token
    the model chooses between marker and constraint, after that the marker is completed (by an :class:`Unbound` matcher's model only if
    it wants to). ``excluded`` must not come while the model reasons.
    """

    matcher: Matcher
    reasoning_end: ReasoningEnd | None = None
    active: bool = True
    broken: bool = False
    refusal: str = ""
    """Why the matcher gave up on the constraint itself, where it said so; the request is to blame then."""
    opening: tuple[int, ...] = ()
    excluded: Excluded | None = None

    @property
    def spent(self) -> bool:
        """Whether nothing is held any more."""
        return self.active and not self.opening and isinstance(self.matcher, Unbound)

    def fill(self, masks: NDArray[np.int32], row: int, output_ids: Sequence[int] = ()) -> None:
        """Write the tokens allowed behind ``output_ids``; all that are not excluded while the model still reasons."""
        masks[row] = -1
        if self.active:
            try:
                self.matcher.fill_mask(masks, row)
            except Exception as error:
                self._gave_up(error, "a matcher could not fill its mask")
        elif self.opening:
            if isinstance(self.matcher, Unbound):
                return
            masks[row] = 0
        elif self.excluded is not None:
            self.excluded.strike(masks, row, output_ids)
        if self.opening:
            word, bit = divmod(self.opening[0], 32)
            masks.view(np.uint32)[row, word] |= np.uint32(1 << bit)

    def advance(self, token: int, output_ids: Sequence[int]) -> bool:
        """Account for a sampled token, the last of ``output_ids``; false when the constraint forbids it."""
        if self.opening:
            if token == self.opening[0]:
                self.active = False
                self.opening = self.opening[1:]
                return True
            if not self.active and not isinstance(self.matcher, Unbound):
                return False
            self.opening, self.active = (), True
        if self.active:
            try:
                return not self.broken and self.matcher.accept(token)
            except Exception as error:
                self._gave_up(error, "a matcher failed on a token")
                return False
        self.active = self.reasoning_end is None or self.reasoning_end.reached(output_ids)
        return True

    def jump(self, least: int, most: int, ends: Container[int]) -> list[int]:
        """Accept the tokens that must come next, at most ``most`` and none of ``ends``; gives them in order. None where the first run
        that the matcher knows is shorter than ``least``."""
        taken: list[int] = []
        if not self.active or self.opening or self.broken:
            return taken
        try:
            while run := self.matcher.forced():
                if not taken and len(run) < least:
                    break
                for token in run:
                    if len(taken) == most or token in ends or not self.matcher.accept(token):
                        return taken
                    taken.append(token)
        except Exception as error:
            self._gave_up(error, "a matcher failed on the tokens that it forces")
        return taken

    def _gave_up(self, error: Exception, what: str) -> None:
        self.broken = True
        if isinstance(error, GrammarError):
            self.refusal = f"the output constraint is too complex to go on with: {error}"
        else:
            log.error(what, exc_info=error)

    def finished(self) -> bool:
        """Whether nothing but an end may follow."""
        return self.active and not self.opening and self.matcher.finished()
