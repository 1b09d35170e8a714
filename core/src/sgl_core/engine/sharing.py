"""In-flight prefix sharing: who is computing which prefix now, so that a second request waits for it instead of computing it too."""

from __future__ import annotations

from .prefix_cache import Match
from .request import Request

_BLOCK = 32
"""Tokens that must agree beyond the cached prefix to make waiting worth while."""


class PrefixSharing:
    """An index from (cache node, the next tokens behind it) to the request whose prefill will extend that node."""

    def __init__(self, page_size: int, wait_steps: int) -> None:
        self._block = -(-_BLOCK // page_size) * page_size
        self._wait_steps = wait_steps
        self._computing: dict[tuple[int, bytes], Request] = {}

    def publish(self, request: Request) -> None:
        """(Re)register a prefill under the end of what it has in the cache."""
        self.withdraw(request)
        if request.node is None or request.shared + self._block > len(request.tokens):
            return
        following = request.tokens[request.shared : request.shared + self._block]
        key = (id(request.node), following.tobytes())
        if self._computing.setdefault(key, request) is request:
            request.share_key = key

    def withdraw(self, request: Request) -> None:
        if request.share_key is not None:
            del self._computing[request.share_key]
            request.share_key = None

    def worth_waiting(self, request: Request, match: Match) -> bool:
        """Whether somebody computes what follows ``match`` of this request, and it has not waited too long already."""
        end = match.length + self._block
        if not self._computing or match.node is None or end > request.match_limit or request.waits >= self._wait_steps:
            return False
        if (id(match.node), request.all_tokens()[match.length : end].tobytes()) not in self._computing:
            return False
        request.waits += 1
        return True
