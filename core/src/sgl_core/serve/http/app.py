"""The starlette application of one service."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sgl_core import __version__
from sgl_core.serve.anthropic import routes as anthropic
from sgl_core.serve.batches import routes as batches
from sgl_core.serve.batches.runner import BatchRunner
from sgl_core.serve.batches.serving import OneModel, Serving
from sgl_core.serve.batches.state import BatchStates
from sgl_core.serve.core.service import Service
from sgl_core.serve.embedding import routes as embedding
from sgl_core.serve.files import routes as files
from sgl_core.serve.files.store import FileStore
from sgl_core.serve.native import control_routes, parse_routes, session_routes
from sgl_core.serve.native.sessions import Sessions
from sgl_core.serve.ollama import routes as ollama
from sgl_core.serve.reference import routes as reference
from sgl_core.serve.responses import routes as responses
from sgl_core.serve.responses.store import ResponseStore

from .application import Application
from .auth import Keys
from .cors import Cors
from .counting import Counting, Counts
from .errors import endpoint, http_exception, json_response
from .request_id import RequestIds
from .routes import control, generation, health, models, tokens, unserved
from .settings import HttpSettings


async def _root(request: Request) -> Response:
    service: Service = request.app.state.service
    return json_response({"name": "sgl", "version": __version__, "model": service.card.name})


def make_app(service: Service, settings: HttpSettings | None = None, *, inner: bool = False) -> Application:
    """The application; ``service.front`` is started and ended by the caller.

    An ``inner`` one is one model of several: what surrounds requests (ids, keys, counts) is done before it is reached.
    """
    settings = settings or HttpSettings()
    app = Application(
        routes=all_routes(),
        middleware=[] if inner else surroundings(settings, _counts(service)),
        exception_handlers={HTTPException: http_exception},
        lifespan=lifespan,
    )
    state = app.state
    state.service = service
    state.settings = settings
    state.responses = ResponseStore()
    state.sessions = Sessions()
    state.files = state.batches = None
    if settings.file_storage is not None:
        keep_files(app, settings.file_storage, OneModel(service, state.responses))
    return app


def keep_files(app: Application, folder: str, serving: Serving) -> None:
    """Give an application files and batches, kept in ``folder``."""
    root = Path(folder)
    app.state.files = FileStore(root / "files")
    app.state.batches = BatchRunner(BatchStates(root / "batches"), app.state.files, serving)


def all_routes() -> list[Route]:
    """The routes of one model."""
    return [
        Route("/", endpoint(_root)),
        *generation.routes(),
        *models.routes(),
        *health.routes(),
        *tokens.routes(),
        *control.routes(),
        *responses.routes(),
        *anthropic.routes(),
        *ollama.routes(),
        *embedding.routes(),
        *parse_routes.routes(),
        *session_routes.routes(),
        *control_routes.routes(),
        *files.routes(),
        *batches.routes(),
        *reference.routes(),
        *unserved.routes(),
    ]


def surroundings(
    settings: HttpSettings, counts: Counts | None, routes: Sequence[BaseRoute] | None = None
) -> list[Middleware]:
    """What every request passes, outermost first. ``routes`` are those counted, where they are not the application's own."""
    return [
        *([Middleware(Counting, counts=counts, routes=routes)] if counts is not None else []),
        Middleware(RequestIds),
        Middleware(Cors, settings=settings),
        Middleware(Keys, settings=settings),
    ]


def _counts(service: Service) -> Counts | None:
    metrics = service.metrics
    if metrics is None:
        return None
    return Counts(metrics.registry, metrics.extra_labels, lambda scope, status: metrics.refused(status), metrics.custom)


@contextlib.asynccontextmanager
async def lifespan(app: Application) -> AsyncIterator[None]:
    """Unfinished batches of a former run go on; what runs in the background ends with the server."""
    runner: BatchRunner | None = app.state.batches
    if runner is not None:
        runner.start()
    try:
        yield
    finally:
        if runner is not None:
            await runner.close()
        app.state.responses.close()
