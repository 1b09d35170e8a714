"""The server process: binds its port, spawns the worker, serves over uvicorn, drains on a signal, leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Coroutine, Iterator
from typing import Any

import uvicorn

from sgl_core.api.sampling import SamplingParams
from sgl_core.config import Config, ConfigError, ServerArgs
from sgl_core.engine.process import ProcessChannel
from sgl_core.registry import Registries

from .banner import progress_printer, startup_table
from .build import build_service, http_settings
from .core.answer import collect
from .core.errors import RequestError
from .core.request import TextRequest
from .core.service import Service
from .http.app import make_app
from .prepare import Prepared, prepare

log = logging.getLogger("sgl.launch")

FORCED = 130
"""Exit status after a second signal."""


def serve(args: ServerArgs, registries: Registries) -> int:
    """Serve until a signal; returns the exit status. Raises what :func:`~.prepare.prepare` raises."""
    from sgl_core.checkpoint.progress import TerminalProgress

    begun = time.monotonic()
    logging.basicConfig(
        level=(args.get("log_level") or "info").upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    listener = bind(args.get("host"), args.get("port"))
    try:
        prepared = prepare(args, registries, progress=TerminalProgress())
        for warning in prepared.resolution.warnings:
            log.warning("%s", warning)
        return run_loop(_Server(prepared, listener, begun).run())
    finally:
        listener.close()


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


class _Uvicorn(uvicorn.Server):
    """uvicorn without its own signal handlers: the drain comes first."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Server:
    """One run of the server."""

    def __init__(self, prepared: Prepared, listener: socket.socket, begun: float) -> None:
        self._prepared = prepared
        self._config: Config = prepared.plan.config
        self._listener = listener
        self._begun = begun
        self._stop = asyncio.Event()
        self._asked = False
        self._forced = False

    async def run(self) -> int:
        channel = ProcessChannel(self._prepared.plan)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled, channel)
        try:
            service = build_service(self._prepared, channel, progress=progress_printer())
        except BaseException:
            channel.close()
            raise
        front = service.front
        await front.start()
        server = _Uvicorn(self._uvicorn_config(service))
        serving = asyncio.create_task(server.serve(sockets=[self._listener]))
        try:
            if not await self._load(service, serving):
                return 1 if not self._forced else FORCED
            await _first(self._stop.wait(), serving)
            if not await self._drain(service):
                _kill(channel)
        finally:
            server.should_exit = True
            server.force_exit = self._forced
            front.end_runs()
            await asyncio.wait({serving}, timeout=10)
            await front.close()
        return FORCED if self._forced else 0

    def _uvicorn_config(self, service: Service) -> uvicorn.Config:
        config = self._config
        level = config.get("log_level_http") or config.get("log_level") or "info"
        return uvicorn.Config(
            make_app(service, http_settings(config)),
            log_level=level.lower(),
            log_config=None,
            lifespan="on",
            timeout_keep_alive=75,
            timeout_graceful_shutdown=5,
            root_path=config.get("fastapi_root_path") or "",
            ssl_keyfile=config.get("ssl_keyfile"),
            ssl_certfile=config.get("ssl_certfile"),
            ssl_ca_certs=config.get("ssl_ca_certs"),
            ssl_keyfile_password=config.get("ssl_keyfile_password"),
            server_header=False,
        )

    async def _load(self, service: Service, serving: asyncio.Task[None]) -> bool:
        """Wait for the model, with health 503 meanwhile; false where it cannot be loaded or a signal came first."""
        ready = asyncio.create_task(service.front.wait_ready())
        await _first(self._stop.wait(), ready, serving)
        if not ready.done():
            ready.cancel()
            return False
        try:
            ready.result()
        except RequestError as error:
            print(f"sgl: the model could not be loaded: {error.message}", file=sys.stderr)
            return False
        if not self._config.get("skip_server_warmup"):
            await self._warm_up(service)
        host, port = self._listener.getsockname()[:2]
        scheme = "https" if self._config.get("ssl_certfile") else "http"
        url = f"{scheme}://{'[' + host + ']' if ':' in host else host}:{port}"
        seconds = time.monotonic() - self._begun
        table = startup_table(self._prepared, service.card.name, service.front.capacity, url, seconds)
        print(table, file=sys.stderr, flush=True)
        return True

    async def _warm_up(self, service: Service) -> None:
        """One short request of our own, so that the first client meets warm caches."""
        token = next(iter(service.card.eos_token_ids), 0)
        request = TextRequest(
            input_ids=[token] * 4,
            sampling=SamplingParams(max_new_tokens=2, temperature=0.0, ignore_eos=True),
            embed=not service.card.generates,
            measured=False,
        )
        try:
            async with service.front.submit([request]) as run:
                await asyncio.wait_for(collect(run), 300)
        except (RequestError, TimeoutError, asyncio.TimeoutError) as error:
            log.warning("the warm-up request failed: %s", error)

    async def _drain(self, service: Service) -> bool:
        """Let what runs end; false where it had not in time or a second signal came."""
        if service.front.state == "dead" or self._forced:
            return False
        seconds = float(self._config.get("drain_seconds"))
        log.info("shutting down: %d requests run, at most %g s are given to them", service.front.running, seconds)
        drain = asyncio.create_task(service.front.drain(seconds))
        self._stop.clear()
        await _first(self._stop.wait(), drain)
        if not drain.done():
            drain.cancel()
            return False
        if not drain.result():
            log.warning("%d requests are cut off after %g s", service.front.running, seconds)
        return drain.result()

    def _signalled(self, channel: ProcessChannel) -> None:
        """The first signal drains, the second forces."""
        if self._asked:
            self._forced = True
            _kill(channel)
        self._asked = True
        self._stop.set()


def _kill(channel: ProcessChannel) -> None:
    """End the worker at once: nobody waits for it any more."""
    if channel.pid is not None and channel.alive():
        os.kill(channel.pid, signal.SIGKILL)


async def _first(*waiting: object) -> None:
    """Wait until the first of some coroutines and tasks is done; coroutines that are not are cancelled."""
    own = [asyncio.ensure_future(entry) for entry in waiting if asyncio.iscoroutine(entry)]
    tasks = [entry for entry in waiting if isinstance(entry, asyncio.Future)]
    await asyncio.wait({*own, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    for task in own:
        task.cancel()
