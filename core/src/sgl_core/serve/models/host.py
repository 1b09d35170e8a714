"""The server of several models: prepares all at start, then one application in front of those of the loaded models."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Scope

from sgl_core import __version__
from sgl_core.config import ConfigError, ServerArgs
from sgl_core.registry import Registries
from sgl_core.registry.hooks import Hooks
from sgl_core.serve.batches import routes as batches
from sgl_core.serve.build import build_service, http_settings, make_metrics
from sgl_core.serve.core.observer import Observer
from sgl_core.serve.core.service import Service
from sgl_core.serve.files import routes as files
from sgl_core.serve.http.app import all_routes, keep_files, lifespan, make_app, surroundings
from sgl_core.serve.http.application import Application
from sgl_core.serve.http.counting import Counts
from sgl_core.serve.http.errors import http_exception
from sgl_core.serve.http.settings import HttpSettings
from sgl_core.serve.prepare import Prepared, prepare
from sgl_core.serve.reference import routes as reference
from sgl_core.serve.responses.store import ResponseStore

from .batching import PoolServing
from .dispatch import MODEL_KEY, Dispatch
from .memory import allowance, limited
from .named import NamedModel, named_models
from .pool import ModelPool
from .routes import routes
from .slot import Slot

log = logging.getLogger("sgl.models")


class ModelsHost:
    """See :class:`sgl_core.serve.host.Host`. ``pool_options`` are ModelPool's, for tests."""

    def __init__(
        self,
        args: ServerArgs,
        registries: Registries,
        hooks: Hooks,
        progress: Any = None,
        watching: Sequence[Observer] = (),
        **pool_options: Any,
    ) -> None:
        named = named_models(args, registries)
        budget = args.get("models_memory")
        slots: list[Slot] = []
        for model in named:
            try:
                prepared = prepare(model.args, registries, progress=progress)
            except ConfigError as error:
                raise ConfigError(f"model {model.name}: {error.because}", fields=error.fields, fix=error.fix) from None
            for warning in prepared.resolution.warnings:
                log.warning("%s: %s", model.name, warning)
            slots.append(_slot(model, prepared, budget, len(named), hooks if not slots else None))
        self.config = slots[0].prepared.plan.config
        self._responses = ResponseStore()
        self._settings = http_settings(self.config)
        pool_options.setdefault("build", partial(build_service, hooks=hooks, watching=watching))
        self.pool = ModelPool(slots, budget, self._application, **pool_options)

    def _application(self, service: Service) -> ASGIApp:
        app = make_app(service, replace(self._settings, file_storage=None), inner=True)
        app.state.responses = self._responses
        return app

    async def start(self) -> ASGIApp:
        return outer_app(self.pool, self._settings, self._responses)

    async def load(self, url: str, begun: float) -> str:
        for slot in self.pool.slots.values():
            if slot.preload:
                await self.pool.load(slot.name)
        seconds = time.monotonic() - begun
        facts = self.pool.default.prepared.plan.facts
        budget = self.pool.budget
        memory = "no bound" if budget is None else f"{_size(budget)} for weights and KV pools"
        rows = [
            ("sgl", f"{__version__}, ready in {seconds:.1f} s"),
            ("platform", f"{facts.platform}" + (f" ({facts.device_name})" if facts.device_name else "")),
            ("memory", memory),
        ]
        for number, slot in enumerate(self.pool.slots.values()):
            what = f"{slot.name}: {slot.prepared.plan.model.architecture}, {_size(slot.memory)}, {slot.state}"
            rows.append(("models" if number == 0 else "", what))
        rows.append(("listening", f"{url} (docs: `sgl explain`, {url}/server_info)"))
        width = max(len(left) for left, _ in rows)
        return "\n".join(f"{left:<{width}}  {right}" for left, right in rows)

    @property
    def running(self) -> int:
        return self.pool.running

    async def drain(self, seconds: float) -> bool:
        return await self.pool.drain(seconds)

    def end_runs(self) -> None:
        self.pool.end_runs()

    def kill(self) -> None:
        self.pool.kill()

    async def close(self) -> None:
        await self.pool.close()
        self._responses.close()


def outer_app(pool: ModelPool, settings: HttpSettings, responses: ResponseStore) -> Application:
    """The routes of all models together; everything else goes to the model it names."""
    registry = CollectorRegistry()
    extra = pool.default.metrics.extra_labels
    counts = Counts(registry, extra, _refused(pool), pool.default.metrics.custom)
    own = [*routes(), *files.routes(), *batches.routes()]
    app = Application(
        routes=[*own, *reference.routes()],
        middleware=surroundings(settings, counts, [*routes(), *all_routes()]),
        exception_handlers={HTTPException: http_exception},
        lifespan=lifespan,
    )
    app.state.responses = responses
    app.state.files = app.state.batches = None
    if settings.file_storage is not None:
        keep_files(app, settings.file_storage, PoolServing(pool, responses))
    app.router.default = Dispatch(pool, settings.max_body_bytes)
    app.state.pool = pool
    app.state.settings = settings
    app.state.http_registry = registry
    return app


def _refused(pool: ModelPool) -> Callable[[Scope, int], None]:
    """Counts a refusal with the model it was meant for; one that names no model of ours is an HTTP answer only."""

    def refused(scope: Scope, status: int) -> None:
        slot = pool.slots.get(scope.get("state", {}).get(MODEL_KEY, ""))
        if slot is not None:
            slot.metrics.refused(status)

    return refused


def _slot(model: NamedModel, prepared: Prepared, budget: int | None, count: int, hooks: Hooks | None) -> Slot:
    memory = model.memory if model.memory is not None else prepared.files.weight_bytes
    if budget is not None:
        if model.memory is None:
            memory = allowance(prepared, budget, count)
        prepared = limited(prepared, memory)
    metrics = make_metrics(model.name, prepared.plan.config, hooks)
    return Slot(
        name=model.name,
        prepared=prepared,
        metrics=metrics,
        reserved=model.memory,
        memory=memory,
        preload=model.preload,
    )


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
