"""Hooks of plugins are called where they should be, and a faulty plugin stops neither the server nor the other plugins."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx
import pytest

from sgl_core.api.specs import ChoiceSpec
from sgl_core.registry import Registries
from sgl_core.registry.hooks import Hooks
from sgl_core.serve import Engine
from sgl_core.serve.hooking import FinishedHook, wrapped
from sgl_core.serve.testing import save_model

pytestmark = pytest.mark.anyio

MODULE = dedent("""
    from prometheus_client import Counter
    from sgl_core.api import hookimpl

    class Good:
        def __init__(self):
            self.seen = []
        @hookimpl
        def sgl_worker_started(self, rank, plan):
            self.seen.append(("worker", rank, plan.facts.platform))
        @hookimpl
        def sgl_request_finished(self, rid, finish_reason, prompt_tokens, completion_tokens):
            self.seen.append((rid, finish_reason, prompt_tokens, completion_tokens))
        @hookimpl
        def sgl_metrics(self, registry):
            Counter("vendor_requests", "Of a plugin.", registry=registry).inc()
        @hookimpl
        def sgl_shutdown(self):
            self.seen.append("shutdown")
        @hookimpl
        def sgl_asgi_app(self, app):
            async def outer(scope, receive, send):
                assert scope["type"] == "http"
                if scope["path"] == "/mine":
                    await send({"type": "http.response.start", "status": 204, "headers": []})
                    await send({"type": "http.response.body", "body": b""})
                elif scope["path"] == "/broken":
                    raise RuntimeError("on purpose")
                else:
                    await app(scope, receive, send)
            return outer

    class Faulty:
        @hookimpl
        def sgl_worker_started(self): raise RuntimeError("on purpose")
        @hookimpl
        def sgl_request_finished(self): raise RuntimeError("on purpose")
        @hookimpl
        def sgl_metrics(self): raise RuntimeError("on purpose")
        @hookimpl
        def sgl_shutdown(self): raise RuntimeError("on purpose")
        @hookimpl
        def sgl_asgi_app(self, app): raise RuntimeError("on purpose")

    good, faulty = Good(), Faulty()
""")


@pytest.fixture
def registries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registries:
    """Two plugins: one that does all and one that fails at all. The first one's module is ``serve_hook_plugins``."""
    (tmp_path / "serve_hook_plugins.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "serve_hook_plugins", raising=False)
    registries = Registries.discover()
    for name in ("good", "faulty"):
        spec = ChoiceSpec(name=name, target=f"serve_hook_plugins:{name}")
        registries.hooks.add(spec, f"sgl-test-{name}", "1.0")
    return registries


@pytest.fixture
def seen(registries: Registries) -> Callable[[], list[Any]]:
    return lambda: sys.modules["serve_hook_plugins"].good.seen  # type: ignore[no-any-return]


def test_worker_requests_metrics_and_shutdown(
    registries: Registries, seen: Callable[[], list[Any]], tmp_path: Path
) -> None:
    with Engine(str(save_model(tmp_path / "model")), device="null", inline=True, registries=registries) as engine:
        engine.generate("hi", {"max_new_tokens": 3, "ignore_eos": True}, rid="mine")
        assert b"vendor_requests_total 1.0" in engine.service.metrics.text()  # type: ignore[union-attr]
    assert seen() == [("worker", 0, "null"), ("mine", "length", 2, 3), "shutdown"]


async def test_how_requests_end(serve: Any, registries: Registries, seen: Callable[[], list[Any]]) -> None:
    async with serve() as api:
        api.service.front.observers.append(FinishedHook(Hooks(registries)))
        await api.post("/v1/completions", {"prompt": "hi", "max_tokens": 2, "rid": "mine"})
        await api.client.get("/health_generate")
        assert seen() == [("mine", "length", 2, 2)]


async def test_the_application_is_wrapped(serve: Any, registries: Registries) -> None:
    async with serve() as api:
        app = wrapped(api.app, Hooks(registries), None)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as client:
            assert (await client.get("/mine")).status_code == 204
            assert (await client.get("/health")).status_code == 200
            broken = await client.get("/broken")
            assert broken.status_code == 500
            assert "plugin failed" in broken.json()["error"]["message"]
        messages: list[Any] = []

        async def receive() -> dict[str, str]:
            return {"type": "lifespan.startup" if not messages else "lifespan.shutdown"}

        async def send(message: Any) -> None:
            messages.append(message["type"])

        await app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
        assert messages == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_without_plugins_the_application_is_ours() -> None:
    app = object()
    assert wrapped(app, Hooks(Registries()), None) is app  # type: ignore[arg-type]
