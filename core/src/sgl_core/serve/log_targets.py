"""Where logs go: the server's own to stderr, access lines without probes, request logs to stdout or to files that rotate."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Sequence
from logging.handlers import RotatingFileHandler
from pathlib import Path

from sgl_core.config import ConfigError

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FILE_BYTES = 64 * 1024 * 1024
"""When a file of request logs is closed and the next one begun."""
FILES = 10
"""How many closed files are kept; the oldest goes."""


def configure(level: str | None, excluded: Sequence[str] = ()) -> None:
    """Log of this process to stderr from ``level`` on; the access log leaves out paths that begin with one of ``excluded``."""
    logging.basicConfig(level=known_level(level or "info"), format=FORMAT, stream=sys.stderr)
    if excluded:
        logging.getLogger("uvicorn.access").addFilter(Excluding(excluded))


def known_level(level: str) -> int:
    """The level's number. Raises ConfigError for a name that is none."""
    number = logging.getLevelName(level.upper())
    if not isinstance(number, int):
        raise ConfigError(
            f"log_level: {level!r} is no level",
            fields=("log_level",),
            fix="write debug, info, warning, error or critical",
        )
    return number


class Excluding(logging.Filter):
    """Drops access lines whose path begins with one of the prefixes."""

    def __init__(self, prefixes: Sequence[str]) -> None:
        super().__init__()
        self._prefixes = tuple(prefix for prefix in prefixes if prefix)

    def filter(self, record: logging.LogRecord) -> bool:
        """uvicorn's access records carry client, method, path with query, HTTP version and status."""
        words = record.args
        if not isinstance(words, tuple) or len(words) < 3:
            return True
        return not str(words[2]).startswith(self._prefixes)


def request_sinks(targets: Sequence[str] | None) -> list[logging.Logger]:
    """A logger per target: ``stdout``, or a folder for files named after the host. None: the server's own log.

    Raises ConfigError for a folder that cannot be written.
    """
    if not targets:
        return [logging.getLogger("sgl.requests")]
    return [_sink(target) for target in dict.fromkeys(targets)]


def _sink(target: str) -> logging.Logger:
    logger = logging.getLogger(f"sgl.requests.{target.replace('.', '_')}")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    for former in list(logger.handlers):
        logger.removeHandler(former)
        former.close()
    handler: logging.Handler
    if target.lower() == "stdout":
        handler = logging.StreamHandler(sys.stdout)
    else:
        handler = _file(target)
    handler.setFormatter(logging.Formatter("[%(asctime)s] %(message)s"))
    logger.addHandler(handler)
    return logger


def _file(folder: str) -> RotatingFileHandler:
    path = Path(folder) / f"{socket.gethostname()}_0.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # it holds what clients wrote
        return RotatingFileHandler(path, maxBytes=FILE_BYTES, backupCount=FILES, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"log_requests_target: cannot write {os.fspath(path)}: {error.strerror or error}",
            fields=("log_requests_target",),
            fix="name stdout or a folder that this user may write",
        ) from None
