"""Several models in one server: routing by name, loading on demand, the budget, fairness, administration, counts."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sgl_core.config import ConfigError

pytestmark = pytest.mark.anyio


def raises(error: Exception) -> None:
    raise error


async def until(condition: Any) -> None:
    for _ in range(5000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("waited five seconds in vain")


async def test_requests_choose_by_name_and_load_on_demand(several: Any) -> None:
    async with several() as server:
        assert (await server.client.get("/health")).status_code == 200
        assert server.states() == {"a": "unloaded", "b": "unloaded"}
        answers = [(await server.ask(name)).json() for name in ("a", "b", "a")]
        assert [answer["model"] for answer in answers] == ["a", "b", "a"]
        assert answers[0]["choices"][0]["text"] == answers[2]["choices"][0]["text"] != answers[1]["choices"][0]["text"]
        assert {name: len(workers) for name, workers in server.workers.items()} == {"a": 1, "b": 1}
        assert (await server.ask(None)).json()["model"] == "a"
        chat = {"model": "b", "messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 2}
        stream = await server.client.post("/v1/chat/completions", json=chat)
        assert stream.text.rstrip().endswith("data: [DONE]")
        ollama = await server.client.post("/api/chat", json={**chat, "model": "b:latest", "stream": False})
        assert ollama.json()["done"] is True


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"model": "z", "prompt": "hi"}),
        ("/v1/messages", {"model": "z", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}),
        ("/api/show", {"name": "z"}),
        ("/models/load", {"model": "z"}),
    ],
)
async def test_an_unknown_model_is_a_404_with_the_names(several: Any, path: str, body: dict[str, Any]) -> None:
    async with several() as server:
        answer = await server.client.post(path, json=body)
        assert answer.status_code == 404
        assert "this server has a, b" in answer.text
        assert server.workers == {}


async def test_bad_bodies_load_nothing(several: Any) -> None:
    async with several() as server:
        for content in (b"{", b"[1]", b'"a"', b'{"model": 5, "prompt": "x"}', b"\xff"):
            assert (await server.client.post("/v1/completions", content=content)).status_code == 400
        assert server.workers == {}


async def test_a_budget_for_one_swaps_models(several: Any) -> None:
    async with several(budget=15) as server:
        texts: dict[str, set[str]] = {"a": set(), "b": set()}
        for turn in range(6):
            name = "ab"[turn % 2]
            answer = await server.ask(name)
            assert answer.status_code == 200
            texts[name].add(answer.json()["choices"][0]["text"])
            assert server.pool.held == 10
            assert server.states() == {
                "a": "ready" if name == "a" else "unloaded",
                "b": "ready" if name == "b" else "unloaded",
            }
        assert all(len(found) == 1 for found in texts.values())
        assert {name: len(workers) for name, workers in server.workers.items()} == {"a": 3, "b": 3}
        assert sum(worker.living for workers in server.workers.values() for worker in workers) == 1
        listed = (await server.client.get("/v1/models")).json()["data"]
        assert [(entry["id"], entry["state"], entry["loads"]) for entry in listed] == [
            ("a", "unloaded", 3),
            ("b", "ready", 3),
        ]


async def test_the_least_recently_used_goes(several: Any) -> None:
    async with several("abc", budget=25) as server:
        for name in "aba":
            await server.ask(name)
        await server.ask("c")
        assert server.states() == {"a": "ready", "b": "unloaded", "c": "ready"}


async def test_both_models_under_load_get_their_turn(several: Any) -> None:
    async with several(budget=10) as server:
        answers = await asyncio.gather(*(server.ask("ab"[turn % 2]) for turn in range(40)))
        assert [answer.status_code for answer in answers] == [200] * 40
        assert [answer.json()["model"] for answer in answers] == ["a", "b"] * 20
        assert server.pool.running == 0


async def test_a_busy_model_is_not_unloaded_under_its_requests(several: Any) -> None:
    async with several(budget=10) as server:
        server.silent = {"a"}
        long = asyncio.create_task(server.ask("a"))
        await until(lambda: server.states()["a"] == "ready" and server.pool.slots["a"].service.front.running)
        other = asyncio.create_task(server.ask("b"))
        await until(lambda: server.pool.slots["a"].leaving)
        late = asyncio.create_task(server.ask("a", max_tokens=1))
        await until(lambda: server.pool.slots["a"].waiters)
        assert server.states() == {"a": "ready", "b": "unloaded"}
        server.silent = set()
        assert (await server.client.post("/abort_request", json={"abort_all": True})).json() == {"aborted": 1}
        assert (await long).json()["choices"][0]["finish_reason"] == "abort"
        assert (await other).json()["model"] == "b"
        assert (await late).json()["model"] == "a"


async def test_no_room_in_time_is_a_503_and_the_busy_model_goes_on(several: Any) -> None:
    async with several(budget=10, wait_seconds=0.0) as server:
        server.silent = {"a"}
        long = asyncio.create_task(server.ask("a"))
        await until(lambda: server.pool.slots["a"].usable and server.pool.slots["a"].service.front.running)
        refused = await server.ask("b")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_memory")
        assert refused.headers["retry-after"]
        assert (await server.client.post("/models/unload", json={"model": "a"})).status_code == 409
        await server.client.post("/abort_request", json={"abort_all": True})
        assert (await long).status_code == 200
        assert (await server.ask("b")).status_code == 200


async def test_models_are_loaded_and_unloaded_by_the_administrator(several: Any) -> None:
    async with several(api_key="user", admin_api_key="boss") as server:
        user, boss = ({"authorization": f"Bearer {key}"} for key in ("user", "boss"))
        post = server.client.post
        assert (await post("/models/load", json={"model": "a"}, headers=user)).status_code == 401
        assert (await post("/v1/completions", json={"model": "a", "prompt": "x"})).status_code == 401
        assert server.workers == {}
        loaded = await post("/models/load", json={"model": "a"}, headers=boss)
        assert loaded.json()["model"]["state"] == "ready"
        assert (await post("/pause_generation", json={"mode": "in_place"}, headers=boss)).status_code == 200
        assert (await post("/flush_cache", headers=boss)).status_code == 200
        unloaded = await post("/models/unload", json={"model": "a"}, headers=boss)
        assert unloaded.json()["model"]["state"] == "unloaded"
        assert (await post("/pause_generation", headers=boss)).status_code == 503
        info = (await server.client.get("/server_info", headers=boss)).json()
        assert info["models"]["a"]["loads"] == 1
        assert (await post("/v1/batches", json={}, headers=user)).status_code == 400


async def test_a_dead_worker_is_replaced_by_the_next_request(several: Any) -> None:
    async with several() as server:
        await server.ask("a")
        server.workers["a"][0].kill()
        await until(lambda: not server.pool.slots["a"].usable)
        assert (await server.client.get("/v1/models/a")).json()["state"] == "dead"
        assert (await server.ask("a")).status_code == 200
        assert len(server.workers["a"]) == 2


async def test_a_model_that_cannot_be_loaded_says_why_and_harms_no_other(several: Any) -> None:
    async with several() as server:
        make, server.pool._channel = server.pool._channel, lambda slot: 1 / 0
        failed = await server.ask("a")
        assert failed.status_code == 500
        assert "division" not in failed.text
        assert "division" in (await server.client.get("/v1/models/a")).json()["error"]
        server.pool._channel = lambda slot: raises(ConfigError("the pool is too small"))
        told = await server.ask("a")
        assert (told.status_code, told.json()["error"]["code"]) == (503, "load_failed")
        assert "too small" in told.text
        server.pool._channel = make
        assert (await server.ask("b")).status_code == 200
        assert (await server.ask("a")).status_code == 200


async def test_a_model_larger_than_it_was_thought_still_takes_turns(several: Any) -> None:
    async with several(budget=10) as server:
        for slot in server.pool.slots.values():
            slot.reserved = None  # the worker's figures hold: no weights and no bytes a token
        server.pool.slots["a"].prepared.files = replace(server.pool.slots["a"].prepared.files, weight_bytes=1000)
        for name in "abab":
            assert (await server.ask(name)).status_code == 200
        assert server.pool.held <= 10


async def test_counters_outlive_a_swap(several: Any) -> None:
    async with several(budget=10) as server:
        for name in "abab":
            await server.ask(name)
        await server.ask("a", top_p=7)
        await server.ask("nobody")
        text = (await server.client.get("/metrics")).text
        assert text.count("# TYPE sglang:num_requests_total ") == 1
        found: dict[tuple[str, str], float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = (sample.name, sample.labels.get("model_name", sample.labels.get("status_code", "")))
                found[key] = found.get(key, 0.0) + sample.value
        assert found["sglang:num_requests_total", "a"] == found["sglang:num_requests_total", "b"] == 2
        assert found["sglang:num_finished_requests_total", "a"] == 2
        assert found["sglang:num_refused_requests_total", "a"] == 1
        assert found["sglang:http_responses_total", "200"] == 4
        assert found["sglang:http_responses_total", "404"] == 1
        assert 'endpoint="/v1/completions"' in text


async def test_a_drain_refuses_what_is_new_and_waits_for_what_runs(several: Any) -> None:
    async with several() as server:
        server.silent = {"a"}
        long = asyncio.create_task(server.ask("a"))
        await until(lambda: server.pool.slots["a"].usable and server.pool.slots["a"].service.front.running)
        drain = asyncio.create_task(server.host.drain(10))
        await asyncio.sleep(0)
        assert (await server.ask("a")).status_code == 503
        assert (await server.ask("b")).status_code == 503
        assert (await server.client.get("/health")).status_code == 503
        server.pool.slots["a"].service.front.abort(everything=True)
        assert await drain is True
        assert (await long).status_code == 200


async def test_responses_are_found_whichever_model_made_them(several: Any) -> None:
    async with several() as server:
        made = (
            await server.client.post("/v1/responses", json={"model": "b", "input": "hi", "max_output_tokens": 2})
        ).json()
        await server.ask("a")
        assert (await server.client.get(f"/v1/responses/{made['id']}")).json()["model"] == "b"
        listed = (await server.client.get("/api/tags")).json()["models"]
        assert [entry["name"] for entry in listed] == ["a", "b"]


async def test_two_workers_in_a_real_server(launch: Any, folders: dict[str, Any], tmp_path: Any) -> None:
    file = tmp_path / "models.yaml"
    file.write_text("".join(f"{name}: {{path: {folders[name]}, memory: 1G}}\n" for name in "ab"))
    process = launch("--models-file", str(file), "--models-memory", "1.5G", model=None)
    client = process.client
    for turn in range(4):
        name = "ab"[turn % 2]
        answer = await client.post("/v1/completions", {"model": name, "prompt": "hi", "max_tokens": 3})
        assert (answer["model"], answer["usage"]["completion_tokens"]) == (name, 3)
    listed = (await client.get("/v1/models"))["data"]
    assert [(entry["state"], entry["loads"]) for entry in listed] == [("unloaded", 2), ("ready", 2)]
    os.kill(process.popen.pid, signal.SIGTERM)
    assert process.end() == 0
