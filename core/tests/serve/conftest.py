"""A served application on a scripted channel, reached over ASGI; and the server as a process on the null platform."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from sgl_core.checkpoint.tokenizer import Tokenizer
from sgl_core.serve.client import Client
from sgl_core.serve.core.front import Front
from sgl_core.serve.core.metrics import Metrics
from sgl_core.serve.core.request import ModelCard
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.templates import ChatTemplate
from sgl_core.serve.http.app import make_app
from sgl_core.serve.http.settings import HttpSettings
from sgl_core.serve.testing import Script, ScriptedChannel, byte_tokenizer, save_model, says

STORY = "Once upon a time, \u4e16\u754c and \U0001f923 met.\nThe end"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return byte_tokenizer(["Once", " upon", " time", " the", " and"])


@dataclass
class Api:
    """A client and what is behind it."""

    client: httpx.AsyncClient
    service: Service
    channel: ScriptedChannel
    tokenizer: Tokenizer
    app: Any = field(default=None, repr=False)

    async def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        return await self.client.post(path, json=body, **options)

    async def events(self, path: str, body: dict[str, Any]) -> list[Any]:
        """The JSON events of a stream that must end with exactly one [DONE]."""
        response = await self.post(path, {**body, "stream": True})
        assert response.status_code == 200, response.text
        return parse_sse(response.text)


def parse_sse(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    assert lines.count("[DONE]") == 1
    return [json.loads(line, parse_constant=_refuse) for line in lines[:-1]]


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


MakeApi = Callable[..., AbstractAsyncContextManager[Api]]


@pytest.fixture
def serve(tokenizer: Tokenizer) -> MakeApi:
    """``async with serve(...) as api``; by default the model tells STORY and ends it with its end-of-sequence token."""

    @contextlib.asynccontextmanager
    async def make(
        script: Script | None = None,
        *,
        silent: bool = False,
        card: dict[str, Any] | None = None,
        settings: HttpSettings | None = None,
        with_tokenizer: Tokenizer | None = None,
        **service_fields: Any,
    ) -> AsyncIterator[Api]:
        own = with_tokenizer or tokenizer
        eos = own.eos_token_ids
        script = script or says(own.encode(STORY, False), eos=eos[0])
        channel = ScriptedChannel(None if silent else script, vocab_size=own.size)
        metrics = Metrics("tiny")
        model = ModelCard(name="tiny", path="/models/tiny", vocab_size=own.size, eos_token_ids=eos, **(card or {}))
        front = Front(channel, own, model, observers=[metrics])
        template = ChatTemplate(own.chat_template, own.special_tokens) if own.chat_template else None
        fields = {"template": template, "metrics": metrics, **service_fields}
        service = Service(front=front, **fields)
        await front.start()
        await front.wait_ready()
        app = make_app(service, settings)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test", timeout=10) as client:
            yield Api(client, service, channel, own, app)
        await front.close()

    return make


SGL = (sys.executable, "-c", "import sys; from sgl_core.cli.main import main; sys.exit(main())")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model") / "tiny")


class Process:
    """A running server; its stderr is read up to the line that names its address."""

    def __init__(self, model: Path | None, *options: str) -> None:
        words = [*SGL, "serve", *([str(model)] if model else []), "--device", "null", "--port", "0", *options]
        env = {name: value for name, value in os.environ.items() if not name.startswith("SGL_")}
        self.popen = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True)
        self.lines: list[str] = []
        self.client = Client(url=self._address())

    def _address(self) -> str:
        assert self.popen.stderr is not None
        for line in self.popen.stderr:
            self.lines.append(line)
            found = re.search(r"listening +(https?://\S+)", line)
            if found:
                return found[1]
        raise AssertionError("".join(self.lines))

    def children(self) -> list[int]:
        text = Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children").read_text()
        return [int(word) for word in text.split()]

    def end(self) -> int:
        return self.popen.wait(timeout=30)

    def close(self) -> None:
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.wait()
        assert self.popen.stderr is not None
        self.popen.stderr.close()


@pytest.fixture
def launch(model: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def start(*options: str, model: Path | None = model) -> Process:
        process = Process(model, *options)
        started.append(process)
        return process

    yield start
    for process in started:
        process.close()


@pytest.fixture(scope="session")
def certificate() -> Callable[..., tuple[str, str]]:
    """``certificate(folder, name, *options of openssl req)``: one for 127.0.0.1 that signs itself, and its key."""

    def make(folder: Path, name: str, *more: str) -> tuple[str, str]:
        cert, key = str(folder / f"{name}.pem"), str(folder / f"{name}.key")
        words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2"]
        words += [*(more or ("-nodes",)), "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run(["openssl", *words, "-keyout", key, "-out", cert], check=True, capture_output=True, timeout=30)
        return cert, key

    return make
