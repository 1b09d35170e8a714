"""Logs: four levels of request logs, their targets, the access log without probes, and the dump of a worker that died."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sgl_core.config import ConfigError
from sgl_core.engine.messages import Fatal
from sgl_core.serve import log_targets
from sgl_core.serve.client import HttpError
from sgl_core.serve.core import request_log
from sgl_core.serve.core.crash_dump import CrashDump
from sgl_core.serve.core.request_log import RequestLog

pytestmark = pytest.mark.anyio
TEXT = "/v1/completions"


@pytest.mark.parametrize("level", [0, 1, 2, 3])
async def test_levels(
    serve: Any, tokenizer: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, level: int
) -> None:
    monkeypatch.setattr(request_log, "_SHORT_TEXT", 100)
    prompt = "a secret " * 40
    async with serve() as api:
        api.service.front.observers.append(RequestLog(level, as_json=True, decode=tokenizer.decode))
        with caplog.at_level(logging.INFO, "sgl.requests"):
            await api.post(TEXT, {"prompt": prompt, "max_tokens": 5, "rid": "mine"})
        received, finished = [json.loads(record.message) for record in caplog.records if record.name == "sgl.requests"]
    assert ("sampling" in received) is (level >= 1)
    assert ("secret" in json.dumps([received, finished])) is (level >= 2)
    if level >= 2:
        assert received["text"] == (prompt if level == 3 else prompt[:100])
        assert finished["text"] == "Once upon a time,"[: len(finished["text"])]
        assert len(finished["output_ids"]) == 5
    assert finished["finish"] == "length"
    assert finished["first_token_seconds"] <= finished["seconds"]


async def test_a_client_cannot_forge_lines(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with serve() as api:
        api.service.front.observers.append(RequestLog(0))
        with caplog.at_level(logging.INFO, "sgl.requests"):
            await api.post(TEXT, {"prompt": "hi", "max_tokens": 1, "rid": "x\nfinished rid=y"})
    lines = [record.message for record in caplog.records if record.name == "sgl.requests"]
    assert len(lines) == 2
    assert not any("\n" in line for line in lines)


async def test_targets_are_files_and_stdout(serve: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sinks = log_targets.request_sinks(["stdout", str(tmp_path / "logs")])
    async with serve() as api:
        api.service.front.observers.append(RequestLog(0, sinks=sinks))
        await api.post(TEXT, {"prompt": "hi", "max_tokens": 1, "rid": "mine"})
    (file,) = (tmp_path / "logs").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    for text in (file.read_text(), capsys.readouterr().out):
        received, finished = text.splitlines()
        assert "received rid=mine prompt_tokens=2" in received
        assert "finished rid=mine finish=length" in finished


def test_files_rotate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_targets, "FILE_BYTES", 200)
    monkeypatch.setattr(log_targets, "FILES", 2)
    (sink,) = log_targets.request_sinks([str(tmp_path)])
    for number in range(40):
        sink.info("%s", f"line {number} " + "x" * 40)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert all(file.stat().st_size <= 200 for file in files)
    assert "line 39" in files[0].read_text()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="log_requests_target"):
        log_targets.request_sinks([str(tmp_path / "file")])
    with pytest.raises(ConfigError, match="log_level"):
        log_targets.known_level("loud")


def test_the_access_log_leaves_probes_out() -> None:
    keep = log_targets.Excluding(["/health", "/metrics"]).filter

    def line(path: str) -> logging.LogRecord:
        return logging.makeLogRecord({"args": ("127.0.0.1:1", "GET", path, "1.1", 200)})

    assert [bool(keep(line(path))) for path in ("/health", "/metrics?x=1", "/v1/models", "/generate")] == [
        False,
        False,
        True,
        True,
    ]
    assert keep(logging.makeLogRecord({"msg": "something else", "args": None}))


async def test_a_dead_workers_requests_are_dumped(serve: Any, tmp_path: Path) -> None:
    async with serve() as api:
        dump = CrashDump(str(tmp_path / "crash"), {"api_key": "********"}, "tiny")
        api.service.front.observers.append(dump)
        await api.post(TEXT, {"prompt": "done", "max_tokens": 2, "rid": "done"})
        api.channel.script = lambda message: []
        running = asyncio.create_task(api.post(TEXT, {"prompt": "stuck", "rid": "stuck"}))
        while not api.service.front.running:  # noqa: ASYNC110 - the turn of another task, no waiting for time
            await asyncio.sleep(0)
        api.channel.push(Fatal(message="boom"))
        assert (await running).status_code == 503
    (file,) = (tmp_path / "crash").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    head, stuck, done = [json.loads(line) for line in file.read_text().splitlines()]
    assert "boom" in head["why"]
    assert head["server"] == {"api_key": "********"}
    assert (stuck["rid"], stuck["finish"], stuck["output_ids"]) == ("stuck", None, [])
    assert (done["rid"], done["finish"], len(done["output_ids"])) == ("done", "length", 2)
    assert len(done["input_ids"]) == len("done")


async def test_a_server_with_all_logs(launch: Callable[..., Any], tmp_path: Path) -> None:
    logs, crash = tmp_path / "logs", tmp_path / "crash"
    options = ["--log-requests", "--log-requests-level", "3", "--log-requests-format", "json"]
    options += ["--log-requests-target", str(logs), "--crash-dump-folder", str(crash)]
    options += ["--uvicorn-access-log-exclude-prefixes", "/health", "/metrics"]
    process = launch(*options)
    await process.client.get("/v1/models")
    await process.client.post(TEXT, {"prompt": "hello", "max_tokens": 2, "rid": "mine"})
    worker = max(process.children(), key=lambda pid: Path(f"/proc/{pid}/cmdline").read_text().count("spawn_main"))
    os.kill(worker, signal.SIGKILL)
    for _ in range(500):
        if crash.exists() and list(crash.iterdir()):
            break
        await asyncio.sleep(0.01)
    with pytest.raises(HttpError, match="signal 9"):
        await process.client.get("/health")
    os.kill(process.popen.pid, signal.SIGTERM)
    assert process.end() == 0
    lines = [json.loads(line.partition("] ")[2]) for line in next(logs.iterdir()).read_text().splitlines()]
    assert [line["event"] for line in lines] == ["ready", "received", "finished", "died"]
    assert lines[1]["text"] == "hello"
    records = [json.loads(line) for line in next(crash.iterdir()).read_text().splitlines()]
    assert "mine" in [record.get("rid") for record in records]
    stderr = process.popen.stderr.read()
    assert "GET /v1/models" in stderr
    assert "/health" not in stderr
