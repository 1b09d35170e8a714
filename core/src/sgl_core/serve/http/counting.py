"""Counts HTTP requests and answers as ASGI middleware, by route, and tells the model's metrics what was refused."""

from __future__ import annotations

from prometheus_client import Counter, Gauge
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sgl_core.serve.core.metrics import ACCEPTED, Metrics

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


class Counting:
    """Passes everything on. Routes with parameters count under their pattern, unknown paths together as ``unknown``."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics
        self._extra = extra = metrics.extra_labels
        names = [*extra, "endpoint", "method"]
        self._requests = Counter(
            "sglang:http_requests_total", "HTTP requests, by route and method.", names, registry=metrics.registry
        )
        self._answers = Counter(
            "sglang:http_responses_total",
            "HTTP answers, by route, status and method; 499: the client left.",
            [*extra, "endpoint", "status_code", "method"],
            registry=metrics.registry,
        )
        self._active = Gauge(
            "sglang:http_requests_active", "HTTP requests under way.", names, registry=metrics.registry
        )
        self._exact: dict[str, str] | None = None
        self._patterns: list[Route] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = self._route(scope)
        labels = {**self._extra, "endpoint": path, "method": _method(scope["method"])}
        self._requests.labels(**labels).inc()
        active = self._active.labels(**labels)
        active.inc()
        accepted: list[int] = []
        token = ACCEPTED.set(accepted)
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
            self._answers.labels(**labels, status_code=str(status)).inc()
            if path in GENERATING and 400 <= status != 499 and not accepted:
                self._metrics.refused(status)

    def _route(self, scope: Scope) -> str:
        if self._exact is None:
            routes = [route for route in scope["app"].routes if isinstance(route, Route)]
            self._patterns = [route for route in routes if "{" in route.path]
            self._exact = {route.path: route.path for route in routes}
        path = route_path(scope)
        found = self._exact.get(path)
        if found is None:
            found = next((route.path for route in self._patterns if route.path_regex.match(path)), "unknown")
        return found


def _method(method: str) -> str:
    """The method; one that nobody knows must not make a series of its own."""
    return method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"
