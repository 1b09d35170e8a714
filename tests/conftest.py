"""One server on the default model for all tests that ask a real one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

START_LIMIT_S = 240


@dataclass
class Server:
    """A running ``sgl serve``; ``root`` is its address, ``model`` the model's name."""

    root: str
    process: subprocess.Popen[bytes]
    model: str = "default"

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.root + path, timeout=60)

    def post(self, path: str, body: dict) -> httpx.Response:
        return httpx.post(self.root + path, json=body, timeout=300)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def free_port():
    """``free_port()``: a port that nobody listens on just now."""
    return _free_port


def _until(condition: Callable[[], object], what: str, limit_s: float = 60) -> None:
    """Ask ``condition`` ten times a second until it holds; AssertionError says ``what`` did not become so within ``limit_s``."""
    limit = time.monotonic() + limit_s
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < limit, f"{what}: not within {limit_s:g} s"
        pause.wait(0.1)


@pytest.fixture(scope="session")
def until():
    """``until(condition, what, limit_s=60)``: a bounded wait for something that can be asked for."""
    return _until


def _ready(server: Server) -> bool:
    """Whether /health is good; the kernel's connect refusal or a 503 means not yet."""
    assert server.process.poll() is None, "the server ended while it started"
    try:
        return server.get("/health").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="session")
def start_server():
    """``start_server(*options)`` starts ``sgl serve`` on the default model; everything started ends with the session."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*options: str) -> Server:
        port = _free_port()
        command = [sys.executable, "-m", "sgl_core", "serve", "--port", str(port), *options]
        log = Path(tempfile.mkdtemp()) / "server.log"
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=dict(os.environ))
        server = Server(f"http://127.0.0.1:{port}", process)
        try:
            _until(lambda: _ready(server), "the server is ready", START_LIMIT_S)
            started.append(process)
        except AssertionError as error:
            process.kill()
            process.wait()
            raise AssertionError(f"{error}\n{log.read_text()[-4000:]}") from None
        server.model = server.get("/v1/models").json()["data"][0]["id"]
        return server

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in started:
        assert process.wait(60) == 0


@pytest.fixture(scope="session")
def server(start_server):
    """The default server."""
    return start_server("--tool-call-parser", "hermes")
