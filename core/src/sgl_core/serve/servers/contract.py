"""What the launcher asks of an HTTP server, and which one it takes."""

from __future__ import annotations

import socket
from typing import Protocol

from starlette.types import ASGIApp

from sgl_core.config import Config, ConfigError
from sgl_core.registry import Registries

DEFAULT = "uvicorn"
BACKLOG = 2048
"""Connections that may wait to be accepted."""


class HttpServer(Protocol):
    """Serves an ASGI application, its lifespan included, on a bound socket. TLS is as the configuration says."""

    def __init__(self, app: ASGIApp, listener: socket.socket, config: Config) -> None:
        """Raises ConfigError for options that this server cannot act on."""
        ...

    async def serve(self) -> None:
        """Serve until :meth:`stop`, then let answers under way end."""
        ...

    def stop(self, *, at_once: bool = False) -> None:
        """Accept nothing more; with ``at_once`` wait for nothing either. Safe to call twice."""
        ...


def server_class(registries: Registries, config: Config) -> type[HttpServer]:
    """The server for this configuration. Raises RegistryError where it cannot be loaded, ConfigError where none is installed."""
    found = registries["http_servers"]
    if not config.get("enable_http2"):
        return found.load(DEFAULT)  # type: ignore[no-any-return]
    able = [name for name in found.names() if "http2" in found.spec(name).flags]
    if not able:
        raise ConfigError(
            "no installed HTTP server speaks HTTP/2", fields=("enable_http2",), fix="install sgl-core[http2]"
        )
    return found.load(able[0])  # type: ignore[no-any-return]
