"""Traces: a span per request with its phases, continued from the client's, and the extra that is named where packages are absent."""

from __future__ import annotations

import asyncio
import gzip
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sgl_core.config import ConfigError, ServerArgs
from sgl_core.engine.messages import Generate, Output
from sgl_core.serve.tracing import Tracing, make_exporter, make_tracing

pytestmark = pytest.mark.anyio
TEXT = "/v1/completions"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


async def test_a_span_per_request_with_its_phases(serve: Any, tokenizer: Any) -> None:
    a = tokenizer.encode("a", False)

    def script(message: Generate) -> list[Output]:
        if message.sampling.seed == 1:
            return [Output(rid=message.rid, finish_reason="error", message="no pages", status=503)]
        return [Output(rid=message.rid, token_ids=a), Output(rid=message.rid, token_ids=a, finish_reason="length")]

    exporter = InMemorySpanExporter()
    tracing = Tracing(exporter, at_once=True)
    async with serve(script) as api:
        api.service.front.observers.append(tracing)
        transport = httpx.ASGITransport(app=tracing.surround(api.app))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            await client.post(TEXT, json={"prompt": "hi", "rid": "mine", "top_p": 0.5}, headers=headers)
            await client.post(TEXT, json={"prompt": "hi", "seed": 1})
            await client.get("/health_generate")
    tracing.close()
    prefill, decode, request, _, failed = exporter.get_finished_spans()
    assert [span.name for span in (prefill, decode, request, failed)] == [
        "queue and prefill",
        "decode",
        "request",
        "request",
    ]
    assert format(request.context.trace_id, "032x") == TRACE
    assert format(request.parent.span_id, "016x") == PARENT
    assert prefill.parent.span_id == decode.parent.span_id == request.context.span_id
    assert (
        prefill.start_time
        == request.start_time
        <= prefill.end_time
        == decode.start_time
        <= decode.end_time
        == request.end_time
    )
    assert request.attributes["gen_ai.request.id"] == "mine"
    assert request.attributes["gen_ai.request.top_p"] == 0.5
    assert request.attributes["gen_ai.usage.completion_tokens"] == 2
    assert request.attributes["gen_ai.response.finish_reasons"] == ("length",)
    assert failed.parent is None
    assert (failed.status.is_ok, failed.status.description) == (False, "no pages")


@pytest.mark.field_case("193")
def test_case_193_absent_packages_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_tracing(ServerArgs.of()) is None
    for name in (
        "opentelemetry.exporter.otlp.proto.grpc.trace_exporter",
        "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    ):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r"sgl-core\[tracing\]"):
        make_tracing(ServerArgs.of(enable_trace=True))
    with pytest.raises(ConfigError, match=r"sgl-core\[tracing\]"):
        make_exporter("http://localhost:4318/v1/traces")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match=r"sgl-core\[tracing\]"):
        Tracing(InMemorySpanExporter())


def test_the_endpoint_chooses_the_protocol() -> None:
    assert "http" in type(make_exporter("http://127.0.0.1:1/v1/traces")).__module__
    assert "grpc" in type(make_exporter("127.0.0.1:1")).__module__
    with pytest.raises(ConfigError, match="HOST:PORT"):
        make_exporter(" ")


async def test_spans_reach_a_collector(serve: Any) -> None:
    got: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            return

    collector = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=collector.serve_forever, daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{collector.server_port}/v1/traces"
    tracing = make_tracing(ServerArgs.of(enable_trace=True, otlp_traces_endpoint=endpoint))
    assert tracing is not None
    async with serve() as api:
        api.service.front.observers.append(tracing)
        await api.post(TEXT, {"prompt": "hi", "max_tokens": 2})
    await asyncio.to_thread(tracing.close)
    collector.shutdown()
    thread.join(5)
    collector.server_close()
    assert got[0][0] == "/v1/traces"
    assert b"queue and prefill" in b"".join(
        gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body for _, body in got
    )
