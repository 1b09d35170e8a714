"""``sgl serve`` from its options on: binds the port, lets the worker import the platform's libraries, and only then imports the HTTP stack."""

from __future__ import annotations

import gc
import os
import socket
import time
from contextlib import closing

from sgl_core.config import ConfigError, ServerArgs
from sgl_core.engine.worker_process import WorkerProcess
from sgl_core.registry import Registries
from sgl_core.registry.platform import PlatformChoice
from sgl_core.registry.preflight import checked_platform

from . import log_targets
from .models.named import several


def serve(args: ServerArgs, registries: Registries, worker: WorkerProcess) -> int:
    """Serve until a signal; returns the exit status. ``worker`` was started for this. Raises what :func:`~.prepare.prepare` raises."""
    begun = time.monotonic()
    log_targets.configure(args.get("log_level"), args.get("uvicorn_access_log_exclude_prefixes"))
    with closing(bind(args.get("host"), args.get("port"))) as listener:
        platform: PlatformChoice | None = None
        if several(args):
            worker.close()  # each model has one of its own
        else:
            platform = checked_platform(registries, args, os.environ)
            worker.preload(platform.spec.preload)
        gc.disable()  # modules live as long as the process: collections need not look at them
        try:
            from .lifetime import run
        finally:
            gc.freeze()
            gc.enable()
        return run(args, registries, listener, begun, platform, worker)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, before anything slow is done. Raises ConfigError where the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            fields=("host", "port"),
            fix="choose another --port, or end the program that has it",
        ) from None
    listener.set_inheritable(False)
    return listener
