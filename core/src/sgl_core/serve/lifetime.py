"""The server process from its bound port on: prepares the model, serves HTTP, drains on a signal, leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Coroutine
from typing import Any

from sgl_core.checkpoint.progress import TerminalProgress
from sgl_core.config import ServerArgs
from sgl_core.engine.worker_process import WorkerProcess
from sgl_core.registry import Registries
from sgl_core.registry.hooks import Hooks
from sgl_core.registry.platform import PlatformChoice

from .core.errors import RequestError
from .hooking import wrapped
from .host import Host, SingleHost
from .models.host import ModelsHost
from .models.named import several
from .prepare import prepare
from .servers.contract import HttpServer, server_class
from .tls import tls_files
from .tracing import Tracing, make_tracing

log = logging.getLogger("sgl.launch")

FORCED = 130
"""Exit status after a second signal."""


def run(
    args: ServerArgs,
    registries: Registries,
    listener: socket.socket,
    begun: float,
    platform: PlatformChoice | None,
    worker: WorkerProcess,
) -> int:
    """Serve until a signal; returns the exit status. Of one model ``platform`` is chosen and ``worker`` waits for its plan.

    Raises what :func:`~.prepare.prepare` raises.
    """
    if (files := tls_files(args)) is not None:
        files.context()
    tracing = make_tracing(args)
    watching = [tracing] if tracing is not None else []
    try:
        hooks = Hooks(registries)
        host: Host
        if several(args):
            host = ModelsHost(args, registries, hooks, TerminalProgress(), watching)
        else:
            prepared = prepare(args, registries, progress=TerminalProgress(), platform=platform)
            for warning in prepared.resolution.warnings:
                log.warning("%s", warning)
            host = SingleHost(prepared, hooks, watching, worker)
        http = server_class(registries, host.config)
        return run_loop(_Server(host, http, hooks, tracing, listener, begun).run())
    finally:
        if tracing is not None:
            tracing.close()


def run_loop(main: Coroutine[Any, Any, int]) -> int:
    """Run to the end on a fresh event loop, uvloop's where it is installed."""
    try:
        import uvloop

        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    except ImportError:
        loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()


class _Server:
    """One run of the server."""

    def __init__(
        self,
        host: Host,
        http: type[HttpServer],
        hooks: Hooks,
        tracing: Tracing | None,
        listener: socket.socket,
        begun: float,
    ) -> None:
        self._host = host
        self._http = http
        self._tracing = tracing
        self._hooks = hooks
        self._config = host.config
        self._listener = listener
        self._begun = begun
        self._stop = asyncio.Event()
        self._asked = False
        self._forced = False

    async def run(self) -> int:
        host = self._host
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled)
        try:
            app = wrapped(await host.start(), self._hooks, self._config)
            if self._tracing is not None:
                app = self._tracing.surround(app)
            server = self._http(app, self._listener, self._config)
            _leave_to_rest()
        except BaseException:
            await host.close()
            raise
        serving = asyncio.create_task(server.serve())
        try:
            if not await self._load(serving):
                return 1 if not self._forced else FORCED
            await _first(self._stop.wait(), serving)
            if not await self._drain():
                host.kill()
        finally:
            self._hooks.call("sgl_shutdown")
            server.stop(at_once=self._forced)
            host.end_runs()
            await asyncio.wait({serving}, timeout=10)
            await host.close()
        return FORCED if self._forced else 0

    async def _load(self, serving: asyncio.Task[None]) -> bool:
        """Wait for the model, with health 503 meanwhile; false where it cannot be loaded or a signal came first."""
        bound, port = self._listener.getsockname()[:2]
        scheme = "https" if self._config.get("ssl_certfile") else "http"
        url = f"{scheme}://{'[' + bound + ']' if ':' in bound else bound}:{port}"
        ready = asyncio.create_task(self._host.load(url, self._begun))
        await _first(self._stop.wait(), ready, serving)
        if not ready.done():
            ready.cancel()
            return False
        try:
            print(ready.result(), file=sys.stderr, flush=True)
        except RequestError as error:
            print(f"sgl: the model could not be loaded: {error.message}", file=sys.stderr)
            return False
        return True

    async def _drain(self) -> bool:
        """Let what runs end; false where it had not in time or a second signal came."""
        if self._forced:
            return False
        seconds = float(self._config.get("drain_seconds"))
        log.info("shutting down: %d requests run, at most %g s are given to them", self._host.running, seconds)
        drain = asyncio.create_task(self._host.drain(seconds))
        self._stop.clear()
        await _first(self._stop.wait(), drain)
        if not drain.done():
            drain.cancel()
            return False
        if not drain.result():
            log.warning("%d requests are cut off after %g s", self._host.running, seconds)
        return drain.result()

    def _signalled(self) -> None:
        """The first signal drains, the second forces."""
        if self._asked:
            self._forced = True
            self._host.kill()
        self._asked = True
        self._stop.set()


def _leave_to_rest() -> None:
    """Spare the garbage collector what lives as long as the server, and the tokens of a step, which are no cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


async def _first(*waiting: object) -> None:
    """Wait until the first of some coroutines and tasks is done; coroutines that are not are cancelled."""
    own = [asyncio.ensure_future(entry) for entry in waiting if asyncio.iscoroutine(entry)]
    tasks = [entry for entry in waiting if isinstance(entry, asyncio.Future)]
    await asyncio.wait({*own, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    for task in own:
        task.cancel()
