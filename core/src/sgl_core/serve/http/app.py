"""The starlette application of one service."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sgl_core import __version__
from sgl_core.serve.anthropic import routes as anthropic
from sgl_core.serve.core.service import Service
from sgl_core.serve.embedding import routes as embedding
from sgl_core.serve.native import control_routes, parse_routes, session_routes
from sgl_core.serve.native.sessions import Sessions
from sgl_core.serve.ollama import routes as ollama
from sgl_core.serve.responses import routes as responses
from sgl_core.serve.responses.store import ResponseStore

from .auth import Keys
from .cors import Cors
from .errors import endpoint, http_exception, json_response
from .request_id import RequestIds
from .routes import control, generation, health, models, tokens
from .settings import HttpSettings


async def _root(request: Request) -> Response:
    service: Service = request.app.state.service
    return json_response({"name": "sgl", "version": __version__, "model": service.card.name})


def make_app(service: Service, settings: HttpSettings | None = None) -> Starlette:
    """The application; ``service.front`` is started and ended by the caller."""
    settings = settings or HttpSettings()
    app = Starlette(
        routes=[
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
        ],
        middleware=[
            Middleware(RequestIds),
            Middleware(Cors, settings=settings),
            Middleware(Keys, settings=settings),
        ],
        exception_handlers={HTTPException: http_exception},
    )
    app.state.service = service
    app.state.settings = settings
    app.state.responses = ResponseStore()
    app.state.sessions = Sessions()
    return app
