"""Counts HTTP requests and answers as ASGI middleware, by route, and tells the model's metrics what was refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sgl_core.serve.core.custom_labels import SENT, CustomLabels
from sgl_core.serve.core.metrics import ACCEPTED

from .errors import route_path

GENERATING = frozenset(
    [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/responses",
        "/v1/messages",
        "/v1/score",
        "/score",
        "/v1/rerank",
        "/v2/rerank",
        "/rerank",
        "/classify",
        "/v1/classify",
        "/generate",
        "/encode",
        "/api/chat",
        "/api/generate",
        "/api/embed",
        "/api/embeddings",
    ]
)
"""Routes whose failures before a run began are refused requests."""


class Counts:
    """The figures. ``refused`` is told the scope and status of requests to generate that were never accepted; ``custom`` says
    which labels clients may send."""

    def __init__(
        self,
        registry: CollectorRegistry,
        extra: Mapping[str, str],
        refused: Callable[[Scope, int], None],
        custom: CustomLabels | None = None,
    ) -> None:
        self.extra = dict(extra)
        self.custom = custom
        self.refused = refused
        names = [*extra, "endpoint", "method"]
        self.requests = Counter(
            "sglang:http_requests_total", "HTTP requests, by route and method.", names, registry=registry
        )
        self.answers = Counter(
            "sglang:http_responses_total",
            "HTTP answers, by route, status and method; 499: the client left.",
            [*extra, "endpoint", "status_code", "method"],
            registry=registry,
        )
        self.active = Gauge("sglang:http_requests_active", "HTTP requests under way.", names, registry=registry)


class Counting:
    """Passes everything on. Routes with parameters count under their pattern, unknown paths together as ``unknown``.

    The routes are those of the application, or ``routes`` where it passes requests on to others.
    """

    def __init__(self, app: ASGIApp, counts: Counts, routes: Sequence[BaseRoute] | None = None) -> None:
        self._app = app
        self._counts = counts
        self._routes = routes
        self._exact: dict[str, str] | None = None
        self._patterns: list[Route] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = self._route(scope)
        counts = self._counts
        labels = {**counts.extra, "endpoint": path, "method": _method(scope["method"])}
        counts.requests.labels(**labels).inc()
        active = counts.active.labels(**labels)
        active.inc()
        accepted: list[int] = []
        token = ACCEPTED.set(accepted)
        if counts.custom is not None:
            SENT.set(counts.custom.read(scope["headers"]))
        status = 499

        async def send_and_see(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_see)
        except Exception:
            status = 500 if status == 499 else status
            raise
        finally:
            ACCEPTED.reset(token)
            active.dec()
            counts.answers.labels(**labels, status_code=str(status)).inc()
            if path in GENERATING and 400 <= status != 499 and not accepted:
                counts.refused(scope, status)

    def _route(self, scope: Scope) -> str:
        if self._exact is None:
            found = self._routes if self._routes is not None else scope["app"].routes
            routes = [route for route in found if isinstance(route, Route)]
            self._patterns = [route for route in routes if "{" in route.path]
            self._exact = {route.path: route.path for route in routes}
        path = route_path(scope)
        known = self._exact.get(path)
        if known is None:
            known = next((route.path for route in self._patterns if route.path_regex.match(path)), "unknown")
        return known


def _method(method: str) -> str:
    """The method; one that nobody knows must not make a series of its own."""
    return method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"
