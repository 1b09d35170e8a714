"""The application of one model or several: starlette's, with a short way out for the pieces of a stream."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

BARE_SEND = "sgl.bare_send"
"""Where the scope holds the ``send`` that the application was called with. What surrounds a request cares for the start of its
answer; pieces of a stream need not pass all of it, token by token."""


class Application(Starlette):
    """Leaves its caller's ``send`` in the scope; that of the outermost application where one calls another."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault(BARE_SEND, send)
        await super().__call__(scope, receive, send)
