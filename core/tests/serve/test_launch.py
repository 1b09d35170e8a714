"""The server as a process, on the null platform: readiness, drain (case 200), forced end, a killed worker, refusals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sgl_core.serve.client import Client, HttpError

pytestmark = pytest.mark.anyio
SGL = (sys.executable, "-c", "import sys; from sgl_core.cli.main import main; sys.exit(main())")


def alive(pids: list[int]) -> list[int]:
    """Those of the processes that still run (a zombie does not)."""
    out = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            out.append(pid)
    return out


async def ended(pids: list[int]) -> bool:
    """Whether all end within ten seconds of the server's own end (the interpreter's resource tracker is among them)."""
    for _ in range(1000):
        if not alive(pids):
            return True
        await asyncio.sleep(0.01)
    return False


LONG = {"prompt": "hi", "max_tokens": 2000, "ignore_eos": True, "stream": True}


async def started_stream(client: Client) -> tuple[Any, Any]:
    """A stream of which the first event came, and that event."""
    stream = client.stream("/v1/completions", LONG)
    return stream, json.loads(await anext(stream))


async def refusal(client: Client) -> HttpError:
    """What /health says once a signal has reached the server."""
    for _ in range(1000):
        try:
            await client.get("/health")
        except HttpError as told:
            return told
        await asyncio.sleep(0.01)
    raise AssertionError("the signal has not reached the server")


async def rest_of(stream: Any) -> list[Any]:
    return [json.loads(data) async for data in stream]


@pytest.mark.field_case("200")
@pytest.mark.parametrize("whole_group", [False, True])
async def test_case_200_drain(launch: Callable[..., Any], whole_group: bool) -> None:
    process = launch("--drain-seconds", "300")
    children = process.children()
    assert children
    stream, _ = await started_stream(process.client)
    if whole_group:
        os.killpg(process.popen.pid, signal.SIGINT)
    else:
        os.kill(process.popen.pid, signal.SIGTERM)
    assert "shutting down" in str(await refusal(process.client))
    with pytest.raises(HttpError) as refused:
        await process.client.post("/v1/completions", {"prompt": "hi"})
    assert refused.value.status == 503
    events = await rest_of(stream)
    assert events[-1]["choices"][0]["finish_reason"] == "length"
    assert process.end() == 0
    assert await ended(children)


@pytest.mark.field_case("200")
async def test_a_second_signal_forces(launch: Callable[..., Any]) -> None:
    process = launch()
    children = process.children()
    stream, _ = await started_stream(process.client)
    os.kill(process.popen.pid, signal.SIGTERM)
    assert (await refusal(process.client)).status == 503
    os.kill(process.popen.pid, signal.SIGTERM)
    events = await rest_of(stream)
    assert events[-1]["error"]["code"] in ("shutting_down", "worker_dead")
    assert process.end() == 130
    assert await ended(children)


async def test_a_killed_worker_is_told_within_two_seconds(launch: Callable[..., Any]) -> None:
    process = launch()
    stream, _ = await started_stream(process.client)
    worker = max(process.children(), key=lambda pid: Path(f"/proc/{pid}/cmdline").read_text().count("spawn_main"))
    loop = asyncio.get_running_loop()
    killed = loop.time()
    os.kill(worker, signal.SIGKILL)
    events = await rest_of(stream)
    assert loop.time() - killed < 2
    assert "signal 9" in events[-1]["error"]["message"]
    with pytest.raises(HttpError, match="signal 9"):
        await process.client.get("/health")
    os.kill(process.popen.pid, signal.SIGTERM)
    assert process.end() == 0


def test_a_taken_port_is_told_before_anything_slow(model: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = [*SGL, "serve", str(model), "--device", "null", "--port", port]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    words = [*SGL, "serve", str(tmp_path / "none"), "--device", "null", "--port", "0"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "none" in done.stderr
    assert "Traceback" not in done.stderr
