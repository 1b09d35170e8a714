"""One-to-many events for plugins (registry ``hooks``), called through pluggy."""

from __future__ import annotations

from typing import Any

import pluggy

hookspec = pluggy.HookspecMarker("sgl")
hookimpl = pluggy.HookimplMarker("sgl")


class SglHooks:
    """The hook specifications. A hook that raises is logged with its plugin's name and never stops serving."""

    @hookspec
    def sgl_asgi_app(self, app: Any, config: Any) -> Any:
        """Wrap or extend the ASGI application; return the application to use or None."""

    @hookspec
    def sgl_worker_started(self, rank: int, plan: Any) -> None:
        """A worker process has loaded its model."""

    @hookspec
    def sgl_request_finished(self, rid: str, finish_reason: str, prompt_tokens: int, completion_tokens: int) -> None:
        """A request ended, in the front process."""

    @hookspec
    def sgl_metrics(self, registry: Any) -> None:
        """Register prometheus collectors at start-up of the front process."""

    @hookspec
    def sgl_shutdown(self) -> None:
        """The server is about to end."""
