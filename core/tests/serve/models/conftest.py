"""A server of several models without processes: scripted workers that end when they are told to."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from sgl_core.config import ServerArgs
from sgl_core.engine.messages import Shutdown, ToWorker
from sgl_core.registry import Registries
from sgl_core.registry.hooks import Hooks
from sgl_core.serve.models.host import ModelsHost
from sgl_core.serve.models.pool import ModelPool
from sgl_core.serve.models.slot import Slot
from sgl_core.serve.testing import ScriptedChannel, save_model, says


class Worker(ScriptedChannel):
    """A scripted worker that dies when it is told to end."""

    def send(self, message: ToWorker) -> None:
        super().send(message)
        if isinstance(message, Shutdown):
            self.living = False


@dataclass
class Several:
    """A client, the models behind it, and every worker that was started, by model."""

    client: httpx.AsyncClient
    host: ModelsHost
    workers: dict[str, list[Worker]] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    """Models whose workers say nothing, so that their requests run until they are aborted."""

    @property
    def pool(self) -> ModelPool:
        return self.host.pool

    def states(self) -> dict[str, str]:
        return {name: slot.state for name, slot in self.pool.slots.items()}

    async def ask(self, model: str | None, **more: Any) -> httpx.Response:
        body = {"prompt": "hi", "max_tokens": 2, **({"model": model} if model is not None else {}), **more}
        return await self.client.post("/v1/completions", json=body)


MakeSeveral = Callable[..., AbstractAsyncContextManager[Several]]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {name: save_model(root / name) for name in ("a", "b", "c")}


@pytest.fixture(scope="session")
def registries() -> Registries:
    return Registries.discover()


@pytest.fixture
def several(folders: dict[str, Path], registries: Registries, tmp_path: Path) -> MakeSeveral:
    """``async with several(memory={"a": 10, ...}, budget=15) as server``."""

    @contextlib.asynccontextmanager
    async def make(
        names: str = "ab", memory: int = 10, budget: int | None = None, wait_seconds: float = 10.0, **settings: Any
    ) -> AsyncIterator[Several]:
        file = tmp_path / "models.yaml"
        file.write_text("".join(f"{name}: {{model_path: {folders[name]}, memory: {memory}}}\n" for name in names))
        store = str(tmp_path / "store")
        asked = {"device": "null", "models_file": str(file), "models_memory": budget, "file_storage_path": store}
        asked |= settings
        args = ServerArgs.from_sources(
            cli={key: value for key, value in asked.items() if value is not None}, registries=registries
        )
        server: Several | None = None

        def channel(slot: Slot) -> Worker:
            assert server is not None
            silent = slot.name in server.silent
            worker = Worker(None if silent else says([ord(slot.name) % 64]), vocab_size=300)
            server.workers.setdefault(slot.name, []).append(worker)
            return worker

        host = ModelsHost(args, registries, Hooks(Registries()), channel=channel, wait_seconds=wait_seconds)
        app = await host.start()
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test", timeout=20) as client:
            server = Several(client, host)
            yield server
        await host.close()

    return make
