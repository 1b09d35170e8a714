"""What the server process runs: one model (here), or several (models/host.py), behind one set of verbs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Sequence
from typing import Protocol

from starlette.types import ASGIApp

from sgl_core.api.sampling import SamplingParams
from sgl_core.config import Config
from sgl_core.engine.process import ProcessChannel
from sgl_core.engine.worker_process import WorkerProcess
from sgl_core.registry.hooks import Hooks

from .banner import progress_printer, startup_table
from .build import build_service, http_settings
from .core.answer import collect
from .core.errors import RequestError
from .core.observer import Observer
from .core.request import TextRequest
from .core.service import Service
from .http.app import make_app
from .prepare import Prepared

log = logging.getLogger("sgl.launch")


class Host(Protocol):
    """Serves models. ``config`` holds the options of the server itself (address, TLS, drain)."""

    config: Config

    async def start(self) -> ASGIApp:
        """Begin; the application answers health at once, with 503 while models load. Raises ConfigError and such."""
        ...

    async def load(self, url: str, begun: float) -> str:
        """Wait until requests can be served; the table for the operator. Raises RequestError where they never can."""
        ...

    @property
    def running(self) -> int:
        """Choices under way."""
        ...

    async def drain(self, seconds: float) -> bool:
        """Refuse what is new and let what runs end; false where it had not after ``seconds``."""
        ...

    def end_runs(self) -> None:
        """End what runs; the clients are told."""
        ...

    def kill(self) -> None:
        """End the workers at once: nobody waits for them any more."""
        ...

    async def close(self) -> None:
        """End everything. Safe after a failed start."""
        ...


class SingleHost:
    """See :class:`Host`."""

    def __init__(
        self, prepared: Prepared, hooks: Hooks, watching: Sequence[Observer] = (), worker: WorkerProcess | None = None
    ) -> None:
        """``worker`` waits for a plan already; without it one is started."""
        self.config = prepared.plan.config
        self._worker = worker
        self._prepared = prepared
        self._hooks = hooks
        self._watching = watching
        self._channel: ProcessChannel | None = None
        self._service: Service | None = None

    @property
    def _served(self) -> Service:
        assert self._service is not None
        return self._service

    async def start(self) -> ASGIApp:
        self._channel = ProcessChannel(self._prepared.plan, started=self._worker)
        self._service = build_service(
            self._prepared, self._channel, progress=progress_printer(), hooks=self._hooks, watching=self._watching
        )
        await self._service.front.start()
        return make_app(self._service, http_settings(self.config))

    async def load(self, url: str, begun: float) -> str:
        service = self._served
        await service.front.wait_ready()
        if not self.config.get("skip_server_warmup"):
            await warm_up(service)
        seconds = time.monotonic() - begun
        return startup_table(self._prepared, service.card.name, service.front.capacity, url, seconds)

    @property
    def running(self) -> int:
        return self._served.front.running

    async def drain(self, seconds: float) -> bool:
        front = self._served.front
        return front.state != "dead" and await front.drain(seconds)

    def end_runs(self) -> None:
        if self._service is not None:
            self._service.front.end_runs()

    def kill(self) -> None:
        if self._channel is not None:
            kill(self._channel)

    async def close(self) -> None:
        if self._service is not None:
            await self._service.front.close()
        elif self._channel is not None:
            self._channel.close()


def kill(channel: ProcessChannel) -> None:
    """End a worker process at once."""
    if channel.pid is not None and channel.alive():
        os.kill(channel.pid, signal.SIGKILL)


async def warm_up(service: Service) -> None:
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
