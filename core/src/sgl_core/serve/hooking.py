"""Where the server calls the hooks of plugins: finished requests, and the application that they may wrap."""

from __future__ import annotations

import logging
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sgl_core.registry.hooks import Hooks

from .core.choice import Choice
from .core.errors import RequestError
from .core.events import Event, Failed, Finished
from .core.observer import Observer
from .http.errors import error_response

log = logging.getLogger("sgl.hooks")


class FinishedHook(Observer):
    """Calls ``sgl_request_finished`` for every choice; our own probes are left out. The reason of a failed one is ``error``."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def finished(self, choice: Choice, event: Event | None, now: float) -> None:
        request = choice.request
        if not request.measured:
            return
        reason = "abort"
        if isinstance(event, Finished):
            reason = event.reason
        elif isinstance(event, Failed):
            reason = "error"
        self._hooks.call(
            "sgl_request_finished",
            rid=request.rid or choice.rid,
            finish_reason=reason,
            prompt_tokens=len(request.input_ids),
            completion_tokens=choice.tokens,
        )


def wrapped(app: ASGIApp, hooks: Hooks, config: Any) -> ASGIApp:
    """The application as plugins want it (``sgl_asgi_app``); the application itself where none wants anything."""
    outer: ASGIApp = hooks.wrap_app(app, config)
    if outer is app:
        return app
    if not callable(outer):
        log.error("a plugin's sgl_asgi_app gave a %s, which is no application; it is left out", type(outer).__name__)
        return app
    return _Guarded(app, outer)


class _Guarded:
    """Requests go through the plugins' application; start and end of the server only to ours, which plugins cannot stop.

    A request on which a plugin fails is answered 500: what a plugin may guard must not be reached around it.
    """

    def __init__(self, inner: ASGIApp, outer: ASGIApp) -> None:
        self._inner = inner
        self._outer = outer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        begun = False

        async def send_and_see(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._outer(scope, receive, send_and_see)
        except Exception:
            log.exception("the application that plugins wrapped failed at %s", scope.get("path", ""))
            if begun or scope["type"] != "http":
                raise
            error = RequestError("a plugin failed; the server's log has the details", status=500)
            await error_response(error, scope["path"])(scope, receive, send)
