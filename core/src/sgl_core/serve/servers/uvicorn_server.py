"""uvicorn, with uvloop and httptools where they are installed. Certificates are taken up again when they change."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from sgl_core.config import Config
from sgl_core.serve.tls import TlsRefresh, tls_files

from .contract import BACKLOG


class UvicornServer:
    """See :class:`~.contract.HttpServer`."""

    def __init__(self, app: ASGIApp, listener: socket.socket, config: Config) -> None:
        level = config.get("log_level_http") or config.get("log_level") or "info"
        settings = uvicorn.Config(
            app,
            log_level=level.lower(),
            log_config=None,
            lifespan="on",
            backlog=BACKLOG,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=5,
            root_path=config.get("fastapi_root_path") or "",
            server_header=False,
        )
        settings.load()
        files = tls_files(config)
        self._refresh: TlsRefresh | None = None
        if files is not None:
            settings.ssl = files.context()
            if config.get("enable_ssl_refresh"):
                self._refresh = TlsRefresh(files, settings.ssl)
        self._listener = listener
        self._server = _Server(settings)

    async def serve(self) -> None:
        refreshing = asyncio.create_task(self._refresh.run()) if self._refresh is not None else None
        try:
            await self._server.serve(sockets=[self._listener])
        finally:
            if refreshing is not None:
                refreshing.cancel()

    def stop(self, *, at_once: bool = False) -> None:
        self._server.should_exit = True
        self._server.force_exit = at_once


class _Server(uvicorn.Server):
    """Without its own signal handlers: the drain comes first."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
