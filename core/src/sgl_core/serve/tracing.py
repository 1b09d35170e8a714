"""OpenTelemetry traces (``--enable-trace``): a span per request, continued from the client's, with a child span per phase.

The packages are the extra ``sgl-core[tracing]``; they are imported only where traces are asked for.
"""

from __future__ import annotations

import logging
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Receive, Scope, Send

from sgl_core import __version__
from sgl_core.config import ConfigError, ServerArgs

from .core.choice import Choice
from .core.events import Event, Failed, Finished
from .core.observer import Observer
from .core.run import Run

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

log = logging.getLogger("sgl.tracing")

HEADERS = ("traceparent", "tracestate")
CARRIER: ContextVar[dict[str, str] | None] = ContextVar("sgl_trace_headers", default=None)
"""Inside an HTTP request: the client's trace headers."""


def make_tracing(args: ServerArgs) -> Tracing | None:
    """The traces that the options ask for. Raises ConfigError where the packages are absent or the endpoint is none."""
    if not args.get("enable_trace"):
        return None
    return Tracing(make_exporter(str(args.get("otlp_traces_endpoint"))))


def make_exporter(endpoint: str) -> SpanExporter:
    """HOST:PORT is sent to over gRPC, a URL with a path (``http://host:4318/v1/traces``) over HTTP."""
    if not endpoint.strip():
        raise ConfigError("otlp_traces_endpoint is empty", fields=("otlp_traces_endpoint",), fix="write HOST:PORT")
    scheme, found, rest = endpoint.partition("://")
    try:
        if found and "/" in rest.rstrip("/"):
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http

            return Http(endpoint=endpoint)
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc

        return Grpc(endpoint=endpoint, insecure=scheme != "https" or not found)
    except ImportError as error:
        raise absent(error) from None


def absent(error: ImportError) -> ConfigError:
    """What to install."""
    return ConfigError(
        f"enable_trace needs the OpenTelemetry packages, which are not installed ({error})",
        fields=("enable_trace",),
        fix="pip install 'sgl-core[tracing]', or leave --enable-trace out",
    )


class Tracing(Observer):
    """An observer of fronts that gives spans to ``exporter`` in the background. Our own probes are left out."""

    def __init__(self, exporter: SpanExporter, *, at_once: bool = False) -> None:
        """``at_once`` exports each span when it ends, for tests. Raises ConfigError where the packages are absent."""
        try:
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
            from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise absent(error) from None
        self._provider = TracerProvider(resource=Resource.create({"service.name": "sgl"}))
        processor = SimpleSpanProcessor(exporter) if at_once else BatchSpanProcessor(exporter)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("sgl", __version__)
        self._propagator = TraceContextTextMapPropagator()
        self._server = SpanKind.SERVER
        self._inside = set_span_in_context
        self._status, self._error = Status, StatusCode.ERROR
        self._parents: dict[str, Any] = {}

    def started(self, run: Run) -> None:
        carrier = CARRIER.get()
        parent = self._propagator.extract(carrier) if carrier else None
        for choice in run.choices:
            if choice.request.measured:
                self._parents[choice.rid] = parent

    def finished(self, choice: Choice, event: Event | None, now: float) -> None:
        if choice.rid not in self._parents:
            return
        parent = self._parents.pop(choice.rid)
        shift = time.time() - time.monotonic()

        def at(moment: float) -> int:
            return int((moment + shift) * 1e9)

        span = self._tracer.start_span(
            "request", context=parent, kind=self._server, start_time=at(choice.arrived), attributes=_asked(choice)
        )
        inside = self._inside(span)
        first = choice.first_at or now
        phases = [("queue and prefill", choice.arrived, first)]
        if choice.first_at:
            phases.append(("decode", first, now))
        for name, begun, ended in phases:
            self._tracer.start_span(name, context=inside, start_time=at(begun)).end(at(ended))
        span.set_attributes(_answered(choice, event, now))
        if isinstance(event, Failed):
            span.set_status(self._status(self._error, event.message))
        span.end(at(now))

    def surround(self, app: ASGIApp) -> ASGIApp:
        """The application, with the clients' trace headers noted."""

        async def noted(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            found = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            token = CARRIER.set({name: found[name] for name in HEADERS if name in found})
            try:
                await app(scope, receive, send)
            finally:
                CARRIER.reset(token)

        return noted

    def close(self) -> None:
        """Send what is left. Waits for the exporter."""
        self._provider.shutdown()


def _asked(choice: Choice) -> dict[str, Any]:
    request, sampling = choice.request, choice.request.sampling
    return {
        "gen_ai.request.id": request.rid or choice.rid,
        "gen_ai.request.n": request.n,
        "gen_ai.request.max_tokens": sampling.max_new_tokens or 0,
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": sampling.top_p,
        "gen_ai.request.top_k": sampling.top_k,
        "gen_ai.usage.prompt_tokens": len(request.input_ids),
    }


def _answered(choice: Choice, event: Event | None, now: float) -> dict[str, Any]:
    reason = event.reason if isinstance(event, Finished) else "error" if isinstance(event, Failed) else "abort"
    out: dict[str, Any] = {
        "gen_ai.usage.completion_tokens": choice.tokens,
        "gen_ai.usage.cached_tokens": choice.cached_tokens,
        "gen_ai.response.finish_reasons": [reason],
        "gen_ai.latency.e2e": now - choice.arrived,
    }
    if choice.first_at:
        out["gen_ai.latency.time_to_first_token"] = choice.first_at - choice.arrived
    return out
