"""ModelPool: leases of models to requests. Loads on demand, one at a time, and makes room by unloading what is idle longest."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence

from sgl_core.checkpoint import CheckpointError, TokenizerError
from sgl_core.config import ConfigError
from sgl_core.engine.process import ProcessChannel
from sgl_core.registry import RegistryError
from sgl_core.serve.build import build_service
from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.core.front import Channel
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.templates import TemplateError
from sgl_core.serve.host import kill

from .slot import Slot, make_channel

log = logging.getLogger("sgl.models")

WAIT_SECONDS = 120.0
"""How long a model that is asked for waits for others to become idle."""


TOLD = (RequestError, ConfigError, RegistryError, CheckpointError, TokenizerError, TemplateError)
"""What an operator can mend: its message is told. Anything else is a fault of ours."""


class ModelPool:
    """All methods run on one event loop.

    ``budget`` in bytes (None: no bound). A model that must go is closed to new requests first; they wait for it to come back,
    behind the model for which it went, so that no model's clients starve another's. ``made`` is told of each service that was
    built and gives the application that answers for it.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        budget: int | None,
        made: Callable[[Service], object],
        *,
        channel: Callable[[Slot], Channel] = make_channel,
        build: Callable[..., Service] = build_service,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self.slots = {slot.name: slot for slot in slots}
        self.budget = budget
        self.draining = False
        self._made = made
        self._channel = channel
        self._build = build
        self._wait_seconds = wait_seconds
        self._line = asyncio.Lock()
        self._moved = asyncio.Event()
        self._loading: dict[str, asyncio.Task[None]] = {}
        for slot in slots:
            if budget is not None and slot.memory > budget:
                raise ConfigError(
                    f"model {slot.name} takes {slot.memory} bytes, more than --models-memory {budget} allows",
                    fields=("models_memory",),
                    fix="raise --models-memory, or lower the model's max_total_tokens or its memory in the models file",
                )

    # -- looking ------------------------------------------------------------------------------------------------------

    def slot(self, name: str) -> Slot:
        """A model by name; Ollama's clients add a tag. Raises RequestError (404) with the names that there are."""
        found = self.slots.get(name) or self.slots.get(name.removesuffix(":latest"))
        if found is None:
            raise RequestError(
                f"there is no model {name!r}; this server has {', '.join(self.slots)}",
                param="model",
                status=404,
                code="model_not_found",
            )
        return found

    @property
    def default(self) -> Slot:
        """The model of requests that name none: the first."""
        return next(iter(self.slots.values()))

    def loaded(self) -> list[Slot]:
        """The models that can serve now, the one used last first."""
        return sorted((slot for slot in self.slots.values() if slot.usable), key=lambda slot: -slot.last_used)

    @property
    def held(self) -> int:
        """Bytes of the budget in use."""
        return sum(slot.held for slot in self.slots.values())

    @property
    def running(self) -> int:
        """Requests inside, or waiting for their model."""
        return sum(slot.leases + len(slot.waiters) for slot in self.slots.values())

    # -- using --------------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def lease(self, name: str) -> AsyncIterator[Slot]:
        """A model that stays loaded inside the block. Raises RequestError: 404, 503 where it cannot be loaded now."""
        slot = self.slot(name)
        if slot.usable and not slot.leaving and not self.draining:
            slot.leases += 1
        else:
            await self._wait_for(slot)
        slot.used()
        try:
            yield slot
        finally:
            slot.leases -= 1
            slot.used()
            self._moved.set()

    async def load(self, name: str) -> Slot:
        """Load a model and keep no lease. Raises as :meth:`lease`."""
        async with self.lease(name) as slot:
            return slot

    async def unload(self, name: str) -> Slot:
        """Unload a model once its requests have ended. Raises RequestError (409) where they do not in time."""
        slot = self.slot(name)
        async with self._line:
            if slot.state == "ready":
                slot.leaving = True
                try:
                    if not await self._until_idle(slot, time.monotonic() + self._wait_seconds):
                        raise RequestError(f"model {slot.name!r} still serves requests", status=409, code="busy")
                    await self._end(slot)
                finally:
                    slot.leaving = False
        return slot

    async def drain(self, seconds: float) -> bool:
        """Refuse new requests and wait until those that run have ended; false where some had not after ``seconds``."""
        self.draining = True
        for slot in self.slots.values():
            self._refuse_waiters(slot, RequestError("the server is shutting down", status=503, code="shutting_down"))
        fronts = [slot.service.front for slot in self.slots.values() if slot.usable and slot.service is not None]
        return all(await asyncio.gather(*(front.drain(seconds) for front in fronts)))

    def end_runs(self) -> None:
        """End what runs; the clients are told."""
        for slot in self.slots.values():
            if slot.service is not None:
                slot.service.front.end_runs()

    def kill(self) -> None:
        """End all workers at once."""
        for slot in self.slots.values():
            if isinstance(slot.channel, ProcessChannel):
                kill(slot.channel)

    async def close(self) -> None:
        """End all workers."""
        self.draining = True
        for task in self._loading.values():
            task.cancel()
        await asyncio.gather(*self._loading.values(), return_exceptions=True)
        await asyncio.gather(*(self._end(slot) for slot in self.slots.values()))

    # -- loading ------------------------------------------------------------------------------------------------------

    async def _wait_for(self, slot: Slot) -> None:
        """Wait until the model is loaded; a lease is taken when it is, so that it cannot go before the waiter has run."""
        if self.draining:
            raise RequestError("the server is shutting down", status=503, code="shutting_down")
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        slot.waiters.append(mine)
        if slot.name not in self._loading:
            self._loading[slot.name] = asyncio.create_task(self._serve_waiters(slot))
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled() and mine.exception() is None:
                slot.leases -= 1
                self._moved.set()
            elif mine in slot.waiters:
                slot.waiters.remove(mine)
            raise

    async def _serve_waiters(self, slot: Slot) -> None:
        error: RequestError | None = None
        try:
            async with self._line:
                if not slot.usable:
                    await self._load(slot)
        except RequestError as refused:
            error = refused
        except asyncio.CancelledError:
            error = RequestError("the server is shutting down", status=503, code="shutting_down")
        except Exception as failure:
            log.exception("model %s could not be loaded", slot.name)
            slot.error = f"{type(failure).__name__}: {failure}"
            error = RequestError(
                f"model {slot.name!r} could not be loaded; the server's log has the reason", status=500
            )
        finally:
            self._loading.pop(slot.name, None)
        if error is not None:
            self._refuse_waiters(slot, error)
            return
        waiters, slot.waiters = slot.waiters, []
        for waiter in waiters:
            if not waiter.done():
                slot.leases += 1
                waiter.set_result(None)

    def _refuse_waiters(self, slot: Slot, error: RequestError) -> None:
        waiters, slot.waiters = slot.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)

    async def _load(self, slot: Slot) -> None:
        await self._end(slot)  # a worker that died
        await self._make_room(slot)
        begun = time.monotonic()
        slot.state, slot.error = "loading", ""
        try:
            await asyncio.to_thread(slot.prepared.read_tokenizer)
            slot.channel = self._channel(slot)
            slot.service = self._build(slot.prepared, slot.channel, metrics=slot.metrics)
            slot.app = self._made(slot.service)  # type: ignore[assignment]
            await slot.service.front.start()
            await slot.service.front.wait_ready()
        except BaseException as error:
            await self._end(slot)
            if not isinstance(error, TOLD):
                raise
            slot.error = error.message if isinstance(error, RequestError) else str(error)
            log.error("model %s could not be loaded: %s", slot.name, slot.error)
            why = f"model {slot.name!r} could not be loaded: {slot.error}"
            raise RequestError(why, status=503, code="load_failed") from None
        slot.memory = slot.measured(slot.service.front.capacity)
        if self.budget is not None and slot.memory > self.budget:
            # It is here already: refusing it from now on would help nobody.
            log.warning("model %s takes %d bytes, the budget is %d", slot.name, slot.memory, self.budget)
            slot.memory = self.budget
        slot.state = "ready"
        slot.loads += 1
        slot.load_seconds = time.monotonic() - begun
        slot.used()
        log.info("loaded %s in %.2f s; %d bytes of models are loaded", slot.name, slot.load_seconds, self.held)
        await self._make_room(slot, loaded=True)

    async def _make_room(self, slot: Slot, loaded: bool = False) -> None:
        """Unload others until the model fits. ``loaded``: it is there already and took more than was thought; what cannot be
        freed at once is then only told."""
        if self.budget is None:
            return
        deadline = time.monotonic() + (0.0 if loaded else self._wait_seconds)
        while self.held + (0 if loaded else slot.memory) > self.budget:
            others = [other for other in self.slots.values() if other is not slot and other.state == "ready"]
            if not others:
                break
            victim = min(others, key=lambda other: (not other.idle, other.last_used))
            victim.leaving = True
            try:
                if not await self._until_idle(victim, deadline):
                    break
                log.info("unloading %s to make room for %s", victim.name, slot.name)
                await self._end(victim)
            finally:
                victim.leaving = False
        if loaded and self.held > self.budget:
            log.warning("the loaded models take %d bytes, more than the budget of %d", self.held, self.budget)
        elif not loaded and self.held + slot.memory > self.budget:
            raise RequestError(
                f"there is no memory for model {slot.name!r} now: the other models are busy",
                status=503,
                code="no_memory",
            )

    async def _until_idle(self, slot: Slot, deadline: float) -> bool:
        while not slot.idle:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._moved.clear()
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                # A run in the background tells nobody that it ended, so look again after a while.
                await asyncio.wait_for(self._moved.wait(), min(left, 0.25))
        return True

    async def _end(self, slot: Slot) -> None:
        """Unload, whatever there is of it."""
        if slot.service is not None:
            slot.state = "unloading"
            await slot.service.front.close(patience=10.0)
        elif slot.channel is not None:
            slot.channel.close()
        slot.service = slot.channel = slot.app = None
        slot.state = "unloaded"
        self._moved.set()
