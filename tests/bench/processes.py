"""Processes that a benchmark starts on 127.0.0.1, each in a session of its own, and ends itself: by their ids, never by name."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STOP_SECONDS = 20.0


class StartError(Exception):
    """A process ended or did not answer in time; the message holds the end of its log."""


@dataclass(slots=True)
class Running:
    """A server under way. ``launch_seconds`` passed from its start to the end of its first chat completion."""

    name: str
    url: str
    process: subprocess.Popen[bytes]
    log: Path
    launch_seconds: float = 0.0

    @property
    def pid(self) -> int:
        return self.process.pid


def free_port() -> int:
    """A port nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(
    command: Sequence[str], log: Path, env: Mapping[str, str] | None = None, nice: int = 0
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own. ``nice`` weighs that session against other jobs (see ``weigh``)."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            list(command),
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    weigh(process.pid, nice)
    return process


def weigh(pid: int, nice: int) -> bool:
    """Set the scheduler's weight of the session that ``pid`` leads (-20 to 19; Linux with autogroups, root for below 0)."""
    if not nice:
        return True
    try:
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))
    except OSError:
        return False
    return True


def stop(process: subprocess.Popen[Any]) -> None:
    """End a process and all of its session, at first politely."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def serving(
    name: str,
    command: Sequence[str],
    port: int,
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    nice: int = 0,
    limit: float = 300.0,
) -> Iterator[Running]:
    """A server from its start until the block ends. Raises StartError where it does not answer within ``limit`` seconds."""
    begun = time.perf_counter()
    process = start(command, log, env, nice)
    running = Running(name, f"http://127.0.0.1:{port}", process, log)
    try:
        _wait(running, begun + limit)
        running.launch_seconds = time.perf_counter() - begun
        yield running
    finally:
        stop(process)


def _wait(running: Running, until: float) -> None:
    """Ask for a short chat until one is answered: a port that listens, or a 503, means that the model still loads."""
    model = ""
    while time.perf_counter() < until:
        if running.process.poll() is not None:
            raise StartError(f"{running.name} ended with {running.process.returncode}:\n{_tail(running.log)}")
        with contextlib.suppress(OSError, ValueError, LookupError):
            model = model or _json(running.url + "/v1/models", None)["data"][0]["id"]
            question = [{"role": "user", "content": "Hello"}]
            _json(f"{running.url}/v1/chat/completions", {"model": model, "messages": question, "max_tokens": 2})
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.process.wait(0.05)
    raise StartError(f"{running.name} did not answer in time:\n{_tail(running.log)}")


def _json(url: str, body: object) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        error.close()
        raise


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]
