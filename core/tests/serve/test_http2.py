"""HTTP/2 by granian, with an HTTP/2 client: streams side by side on one connection, TLS, drain, clients that leave, refusals."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h2.connection
import h2.events
import httpx
import pytest

from sgl_core.config import ConfigError
from sgl_core.registry import Registries
from sgl_core.serve.servers.contract import server_class

pytestmark = pytest.mark.anyio
HTTP2 = ("--enable-http2", "--http2-max-concurrent-streams", "100")
LONG = {"prompt": "hi", "max_tokens": 2000, "ignore_eos": True, "stream": True}


def client(url: str, **options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, http1=False, http2=True, timeout=30, **options)


async def events(answer: httpx.Response) -> list[Any]:
    found = [line.removeprefix("data: ") async for line in answer.aiter_lines() if line]
    return [json.loads(line) for line in found if line != "[DONE]"]


async def text(api: httpx.AsyncClient, number: int, stream: bool) -> str:
    body = {"prompt": f"number {number}", "max_tokens": 40, "ignore_eos": True, "temperature": 0, "stream": stream}
    answer = await api.post("/v1/completions", json=body)
    assert answer.http_version == "HTTP/2"
    if not stream:
        return str(answer.json()["choices"][0]["text"])
    return "".join(choice["text"] for event in await events(answer) for choice in event["choices"])


async def test_streams_side_by_side_on_one_connection(launch: Callable[..., Any]) -> None:
    process = launch(*HTTP2)
    async with client(process.client.url, limits=httpx.Limits(max_connections=1)) as api:
        streamed = await asyncio.gather(*(text(api, number, True) for number in range(60)))
        assert len(set(streamed)) == 60
        assert streamed[:5] == [await text(api, number, False) for number in range(5)]
        metrics = (await api.get("/metrics")).text
        assert 'sglang:num_finished_requests_total{finish_reason="length"' in metrics
    async with httpx.AsyncClient(base_url=process.client.url) as old:
        assert (await old.get("/health")).http_version == "HTTP/1.1"


async def test_tls_offers_http2_and_asks_clients_for_certificates(
    launch: Callable[..., Any], tmp_path: Path, certificate: Any
) -> None:
    (cert, key), (authority, authority_key) = certificate(tmp_path, "one"), certificate(tmp_path, "authority")
    process = launch(*HTTP2, "--ssl-certfile", cert, "--ssl-keyfile", key, "--ssl-ca-certs", authority)
    assert process.client.url.startswith("https://")
    trusting = ssl.create_default_context(cafile=cert)
    async with client(process.client.url, verify=trusting) as api:
        with pytest.raises((httpx.TransportError, ssl.SSLError)):
            await api.get("/health")
    signed = ("-nodes", "-CA", authority, "-CAkey", authority_key, "-addext", "basicConstraints=critical,CA:FALSE")
    trusting.load_cert_chain(*certificate(tmp_path, "client", *signed))
    async with client(process.client.url, verify=trusting) as api:
        assert len(await text(api, 1, True)) > 0


async def test_drain_lets_a_stream_end(launch: Callable[..., Any]) -> None:
    process = launch(*HTTP2, "--drain-seconds", "300")
    async with client(process.client.url) as api, api.stream("POST", "/v1/completions", json=LONG) as answer:
        lines = answer.aiter_lines()
        await anext(lines)
        os.kill(process.popen.pid, signal.SIGTERM)
        async with client(process.client.url) as other:
            while (await other.get("/health")).status_code == 200:
                continue
            refused = await other.post("/v1/completions", json={"prompt": "hi"})
            assert refused.status_code == 503
        rest = [line async for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert json.loads(rest[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
    assert process.end() == 0


async def started(port: int) -> tuple[asyncio.StreamWriter, Any]:
    """A connection whose stream 1 has brought data."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    talk = h2.connection.H2Connection()
    talk.initiate_connection()
    body = json.dumps(LONG).encode()
    path, size = [(":path", "/v1/completions"), (":authority", "x")], ("content-length", str(len(body)))
    talk.send_headers(1, [(":method", "POST"), (":scheme", "http"), *path, ("content-type", "application/json"), size])
    talk.send_data(1, body, end_stream=True)
    came = False
    while not came:
        writer.write(talk.data_to_send())
        came = any(isinstance(event, h2.events.DataReceived) for event in talk.receive_data(await reader.read(65536)))
    return writer, talk


async def aborted(url: str, count: int) -> None:
    """Wait until so many requests were aborted."""
    line = re.compile(rf"^sglang:num_aborted_requests_total\{{.*\}} {count}\.0$", re.M)
    async with httpx.AsyncClient(base_url=url) as api:
        while not line.search((await api.get("/metrics")).text):
            continue


async def test_a_client_that_leaves_ends_its_request(launch: Callable[..., Any]) -> None:
    process = launch(*HTTP2, "--plugin-option", "null.step_seconds=0.01")
    url = process.client.url
    port = int(url.rpartition(":")[2])
    writer, talk = await started(port)
    talk.reset_stream(1)
    writer.write(talk.data_to_send())
    await asyncio.wait_for(aborted(url, 1), 10)
    writer.close()
    (await started(port))[0].close()
    await asyncio.wait_for(aborted(url, 2), 10)


async def test_a_second_signal_forces(launch: Callable[..., Any]) -> None:
    process = launch(*HTTP2, "--plugin-option", "null.step_seconds=0.01")
    async with client(process.client.url) as api, api.stream("POST", "/v1/completions", json=LONG) as answer:
        await anext(answer.aiter_lines())
        os.kill(process.popen.pid, signal.SIGTERM)
        async with client(process.client.url) as other:
            while (await other.get("/health")).status_code == 200:
                continue
        os.kill(process.popen.pid, signal.SIGTERM)
        assert process.end() == 130


def test_what_it_cannot_do_is_refused(model: Path, tmp_path: Path, certificate: Any) -> None:
    cert, key = certificate(tmp_path, "one")
    words = [sys.executable, "-m", "sgl_core", "serve", str(model), "--device", "null", "--port", "0", *HTTP2]
    words += ["--ssl-certfile", cert, "--ssl-keyfile", key, "--enable-ssl-refresh"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "enable_ssl_refresh" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_server_that_speaks_it() -> None:
    with pytest.raises(ConfigError, match="no installed HTTP server"):
        server_class(Registries(), {"enable_http2": True})  # type: ignore[arg-type]
