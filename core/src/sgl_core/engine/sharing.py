"""In-flight prefix sharing: who is computing which prefix now, so that a second request waits for it instead of computing it too."""

from __future__ import annotations

from .prefix_cache import Match
from .request import Request

_BLOCK = 32
"""Tokens that must agree beyond the cached prefix to make waiting worth while."""


class PrefixSharing:
    """An index from (cache node, the next tokens behind it) to the request whose prefill will extend that node."""

    def __init__(self, page_size: int, wait_steps: int) -> None:
        self._page = page_size
        self._block = -(-_BLOCK // page_size) * page_size
        self._wait_steps = wait_steps
        self._computing: dict[tuple[int, bytes], Request] = {}
        self._active: set[int] = set()

    def publish(self, request: Request) -> None:
        """(Re)register a prefill under the end of what it has in the cache."""
        self.withdraw(request)
        if request.node is None:
            return
        self._active.add(request.seq)
        left = len(request.tokens) - request.shared
        # The last pages of a prefill are found by the next one of them, but never the first of a prompt: many begin alike.
        size = self._block if left >= self._block else self._page
        if left < size or (size < self._block and request.shared == 0):
            return
        key = (id(request.node), request.tokens[request.shared : request.shared + size].tobytes())
        if self._computing.setdefault(key, request) is request:
            request.share_key = key

    def withdraw(self, request: Request) -> None:
        """Its prefill is done, or will never be."""
        self._active.discard(request.seq)
        if request.share_key is not None:
            del self._computing[request.share_key]
            request.share_key = None

    def worth_waiting(self, request: Request, match: Match) -> bool:
        """Whether somebody computes what follows ``match`` of this request, and it has not waited too long already."""
        if not self._active or match.node is None or request.waits >= self._wait_steps:
            return False
        other = request.awaits
        if other is None or not self._goes_on(other, request, match):
            room = request.match_limit - match.length
            other = None
            for size in (self._block, self._page):
                if other is None and room >= size:
                    key = (id(match.node), request.tokens[match.length : match.length + size].tobytes())
                    other = self._computing.get(key)
        request.awaits = other
        request.waits += other is not None
        return other is not None

    def _goes_on(self, other: Request, request: Request, match: Match) -> bool:
        """Whether the one it waits for already will bring at least one more page: the last ones are fewer than a block."""
        start, end = match.length, match.length + self._page
        return (
            other.seq in self._active
            and other.node is match.node
            and end <= min(request.match_limit, len(other.tokens))
            and bool((other.tokens[start:end] == request.tokens[start:end]).all())
        )
