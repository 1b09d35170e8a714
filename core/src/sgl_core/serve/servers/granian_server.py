"""granian: HTTP/2 (over TLS by ALPN, in the clear by prior knowledge) and HTTP/1.1, embedded in this process's event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from pathlib import Path
from typing import Any

from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.errors import ConfigurationError
from granian.http import HTTP2Settings
from granian.log import LogLevels
from granian.server.embed import Server
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sgl_core.config import Config, ConfigError
from sgl_core.serve.tls import tls_files

from .contract import BACKLOG

_AT_ONCE = 100_000
"""Requests at the same time: the engine's queue bounds them, not this server."""
_LAST_PIECES_SECONDS = 1.0
"""After the last answer ended, before connections are told to go away: some clients (Python's h2) read nothing after that."""
_LEAVE_LOGGING = {"incremental": True, "handlers": {}, "loggers": {}}


class GranianServer:
    """See :class:`~.contract.HttpServer`."""

    def __init__(self, app: ASGIApp, listener: socket.socket, config: Config) -> None:
        if config.get("enable_ssl_refresh"):
            raise ConfigError(
                "granian cannot take up changed certificates",
                fields=("enable_http2", "enable_ssl_refresh"),
                fix="leave out --enable-ssl-refresh and restart the server for a new certificate",
            )
        level = (config.get("log_level_http") or config.get("log_level") or "info").lower()
        tls: dict[str, Any] = {}
        files = tls_files(config)
        if files is not None:
            tls = {
                "ssl_cert": Path(files.certificate),
                "ssl_key": Path(files.key or files.certificate),
                "ssl_key_password": files.password,
                "ssl_ca": None if files.authorities is None else Path(files.authorities),
                "ssl_client_verify": files.authorities is not None,
                "ssl_protocol_min": SSLProtocols.tls12,
            }
        try:
            self._server = _Server(
                listener,
                AccessLog(app) if logging.getLevelName(level.upper()) <= logging.INFO else app,
                interface=Interfaces.ASGI,
                http=HTTPModes.auto,
                http2_settings=HTTP2Settings(
                    max_concurrent_streams=config.get("http2_max_concurrent_streams"),
                    initial_connection_window_size=config.get("http2_initial_connection_window_size"),
                ),
                websockets=False,
                backpressure=_AT_ONCE,
                log_level=LogLevels.debug if level == "debug" else LogLevels.error,
                log_dictconfig=_LEAVE_LOGGING,
                url_path_prefix=config.get("fastapi_root_path") or None,
                **tls,
            )
        except ConfigurationError as error:
            raise ConfigError(f"granian does not take these options: {error}", fields=("enable_http2",)) from None

    async def serve(self) -> None:
        await self._server.serve()

    def stop(self, *, at_once: bool = False) -> None:
        if not at_once:
            asyncio.get_running_loop().call_later(_LAST_PIECES_SECONDS, self._server.stop)
        else:
            self._server.stop()  # type: ignore[no-untyped-call]
            for worker in self._server.wrks:
                worker.kill()  # type: ignore[no-untyped-call]


class _Server(Server):
    """On a socket that is bound already."""

    def __init__(self, listener: socket.socket, app: ASGIApp, **options: Any) -> None:
        super().__init__(app, **options)
        self._listener = listener

    def _init_shared_socket(self) -> None:
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        self._ssp = None
        self._shd: Any = SocketHolder(os.dup(self._listener.fileno()), False, BACKLOG)  # type: ignore[call-arg]


class AccessLog:
    """The lines uvicorn writes, under the same logger, so that what leaves paths out does so here too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._log = logging.getLogger("uvicorn.access")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                host, port = scope["client"] or ("", 0)
                query = scope["query_string"].decode("latin-1")
                path = f"{scope['path']}?{query}" if query else scope["path"]
                line = (f"{host}:{port}", scope["method"], path, scope["http_version"], message["status"])
                self._log.info('%s - "%s %s HTTP/%s" %d', *line)
            await send(message)

        await self._app(scope, receive, send_and_tell if scope["type"] == "http" else send)
