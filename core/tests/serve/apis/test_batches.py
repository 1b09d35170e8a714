"""/v1/batches: results by line, errors, refusals (field case 55), cancelling, and what a restart does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sgl_core.serve.http.settings import HttpSettings
from sgl_core.serve.testing import says

pytestmark = pytest.mark.anyio
CHAT = "/v1/chat/completions"
WIDTH = 8
"""Lines at once on a channel that does not say how many requests it holds."""


def line(key: Any, body: Any = None, url: str = CHAT, method: str = "POST") -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4} if body is None else body
    return {"custom_id": key, "method": method, "url": url, "body": body}


async def submit(api: Any, rows: list[Any], endpoint: str = CHAT) -> Any:
    content = b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows)
    made = await api.client.post("/v1/files", files={"file": ("in.jsonl", content)}, data={"purpose": "batch"})
    return await create(api, made.json()["id"], endpoint)


async def create(api: Any, file: str, endpoint: str = CHAT, **more: Any) -> Any:
    body = {"input_file_id": file, "endpoint": endpoint, "completion_window": "24h", **more}
    return await api.post("/v1/batches", body)


async def until(true: Callable[[], bool]) -> None:
    """Let the event loop run until it is so."""
    for _ in range(10_000):
        if true():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come")


async def ended(api: Any, key: str) -> dict[str, Any]:
    """The batch once it ended; the event loop runs meanwhile."""
    for _ in range(10_000):
        batch = (await api.client.get(f"/v1/batches/{key}")).json()
        if batch["status"] in ("completed", "failed", "cancelled", "expired"):
            return batch
        await asyncio.sleep(0)
    raise AssertionError(f"the batch does not end: {batch}")


async def rows_of(api: Any, file: str) -> dict[str, Any]:
    text = (await api.client.get(f"/v1/files/{file}/content")).text
    rows = [json.loads(row) for row in text.splitlines()]
    assert len({row["custom_id"] for row in rows}) == len(rows)
    return {row["custom_id"]: row for row in rows}


def settings(folder: Path) -> HttpSettings:
    return HttpSettings(file_storage=str(folder / "store"))


async def test_results_are_those_of_the_route_line_by_line(serve, tmp_path: Path) -> None:
    async with serve(settings=settings(tmp_path), card={"embeds": True}) as api:
        bad = line("bad", {"messages": [], "max_tokens": 4})
        rows = [line(f"r{n}") for n in range(50)] + [bad, line("streamed", {**line("x")["body"], "stream": True})]
        made = (await submit(api, rows)).json()
        assert made["status"] == "validating"
        batch = await ended(api, made["id"])
        assert batch["status"] == "completed"
        assert batch["request_counts"] == {"total": 52, "completed": 50, "failed": 2}
        results = await rows_of(api, batch["output_file_id"])
        direct = (await api.post(CHAT, rows[0]["body"])).json()
        for n in range(50):
            body = results[f"r{n}"]["response"]["body"]
            assert body["choices"] == direct["choices"]
            assert results[f"r{n}"]["response"]["status_code"] == 200
        errors = await rows_of(api, batch["error_file_id"])
        assert errors["bad"]["response"]["status_code"] == 400
        assert errors["bad"]["response"]["body"]["error"]["param"] == "messages"
        assert errors["streamed"]["response"]["body"]["error"]["param"] == "stream"


@pytest.mark.parametrize(
    ("endpoint", "body", "found"),
    [
        ("/v1/completions", {"prompt": "hi", "max_tokens": 3}, "text_completion"),
        ("/v1/embeddings", {"input": "hi"}, "list"),
        ("/v1/responses", {"input": "hi"}, "response"),
    ],
)
async def test_every_endpoint(serve, tmp_path: Path, endpoint: str, body: dict[str, Any], found: str) -> None:
    async with serve(settings=settings(tmp_path), card={"embeds": True}) as api:
        made = (await submit(api, [line("a", body, endpoint)], endpoint)).json()
        batch = await ended(api, made["id"])
        assert (await rows_of(api, batch["output_file_id"]))["a"]["response"]["body"]["object"] == found
        assert batch["error_file_id"] is None
        assert len(api.app.state.responses) == 0


@pytest.mark.field_case("55")
async def test_case_55_a_repeated_custom_id_is_refused(serve, tmp_path: Path) -> None:
    async with serve(settings=settings(tmp_path)) as api:
        batch = (await submit(api, [line("a"), line("b"), line("a")])).json()
        assert batch["status"] == "failed"
        (error,) = batch["errors"]["data"]
        assert (error["code"], error["line"], error["param"]) == ("duplicate_custom_id", 3, "custom_id")
        assert api.channel.generated() == []


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([b"{"], "invalid_json_line"),
        ([b"[1]"], "invalid_json_line"),
        ([b"\xff\xfe"], "invalid_json_line"),
        ([line("")], "missing_required_parameter"),
        ([line(5)], "missing_required_parameter"),
        ([line("a", "x")], "missing_required_parameter"),
        ([line("a", url="/v1/completions")], "mismatched_endpoint"),
        ([line("a", method="GET")], "invalid_method"),
        ([b"", b"  "], "empty_file"),
    ],
)
async def test_faulty_files(serve, tmp_path: Path, rows: list[Any], code: str) -> None:
    async with serve(settings=settings(tmp_path)) as api:
        batch = (await submit(api, rows)).json()
        assert batch["status"] == "failed"
        assert batch["errors"]["data"][0]["code"] == code


async def test_refusals(serve, tmp_path: Path) -> None:
    async with serve(settings=settings(tmp_path)) as api:
        assert (await create(api, "file-nope")).status_code == 404
        made = await api.client.post("/v1/files", files={"file": ("a", b"x")}, data={"purpose": "batch"})
        for more in ({"endpoint": "/generate"}, {"completion_window": "1h"}, {"metadata": {"a": 1}}):
            body = {"input_file_id": made.json()["id"], "endpoint": CHAT, "completion_window": "24h", **more}
            response = await api.post("/v1/batches", body)
            assert response.status_code == 400
        assert (await api.client.get("/v1/batches/nope")).status_code == 404
        assert (await api.client.post("/v1/batches/nope/cancel")).status_code == 404
        assert (await api.client.get("/v1/batches")).json()["data"] == []
    async with serve() as api:
        assert (await create(api, "x")).status_code == 501


async def test_a_cancelled_batch_keeps_what_it_has(serve, tmp_path: Path) -> None:
    async with serve(silent=True, settings=settings(tmp_path)) as api:
        made = (await submit(api, [line(f"r{n}") for n in range(100)])).json()
        waiting = (await submit(api, [line("z")])).json()
        await until(lambda: len(api.channel.generated()) == WIDTH)
        first = api.channel.generated()[0]
        for out in says([65], chunk=9)(first):
            api.channel.push(outputs(out))
        batch = api.app.state.batches.states.get(made["id"])
        await until(lambda: batch["request_counts"]["completed"] == 1)
        for key in (waiting["id"], made["id"]):
            assert (await api.client.post(f"/v1/batches/{key}/cancel")).json()["status"] == "cancelling"
        cancelled = await ended(api, made["id"])
        assert (cancelled["status"], cancelled["request_counts"]["completed"]) == ("cancelled", 1)
        assert list(await rows_of(api, cancelled["output_file_id"])) == ["r0"]
        assert (await ended(api, waiting["id"]))["output_file_id"] is None
        assert api.service.front.running == 0
        assert len(api.channel.generated()) <= WIDTH + 1
        assert (await api.client.post(f"/v1/batches/{made['id']}/cancel")).json()["status"] == "cancelled"


def outputs(*items: Any) -> Any:
    from sgl_core.engine.messages import Outputs

    return Outputs(items=list(items))


async def test_a_restart_goes_on_where_it_stopped(serve, tmp_path: Path) -> None:
    async with serve(silent=True, settings=settings(tmp_path)) as api:
        made = (await submit(api, [line(f"r{n}") for n in range(40)])).json()
        await until(lambda: len(api.channel.generated()) == WIDTH)
        for message in api.channel.generated()[:5]:
            for out in says([65], chunk=9)(message):
                api.channel.push(outputs(out))
        batch = api.app.state.batches.states.get(made["id"])
        await until(lambda: batch["request_counts"]["completed"] == 5)
        await api.app.state.batches.close()
    results = tmp_path / "store" / "batches" / f"{made['id']}.output.jsonl"
    with results.open("ab") as file:
        file.write(b'{"id": "half a li')  # as a crash leaves it
    async with serve(settings=settings(tmp_path)) as api, api.app.router.lifespan_context(api.app):
        batch = await ended(api, made["id"])
        assert batch["status"] == "completed"
        assert batch["request_counts"] == {"total": 40, "completed": 40, "failed": 0}
        assert set(await rows_of(api, batch["output_file_id"])) == {f"r{n}" for n in range(40)}
        assert len(api.channel.generated()) == 35
        assert not results.exists()


async def test_a_crash_while_finalizing_loses_nothing(serve, tmp_path: Path) -> None:
    async with serve(settings=settings(tmp_path)) as api:
        made = (await submit(api, [line("a")])).json()
        batch = await ended(api, made["id"])
    store = tmp_path / "store"
    state = store / "batches" / f"{made['id']}.json"
    output = store / "files" / f"{batch['output_file_id']}.data"
    # As if the crash had come after the promise of the file and before the move.
    output.rename(store / "batches" / f"{made['id']}.output.jsonl")
    state.write_text(json.dumps({**batch, "status": "finalizing", "ends_as": "completed"}))
    async with serve(settings=settings(tmp_path)) as api:
        after = await ended(api, made["id"])
        assert (after["status"], after["output_file_id"]) == ("completed", batch["output_file_id"])
        assert list(await rows_of(api, after["output_file_id"])) == ["a"]


async def test_an_expired_batch_says_so_for_every_line(serve, tmp_path: Path) -> None:
    async with serve(silent=True, settings=settings(tmp_path)) as api:
        made = (await submit(api, [line(f"r{n}") for n in range(40)])).json()
        await until(lambda: len(api.channel.generated()) == WIDTH)
        await api.app.state.batches.close()
    state = tmp_path / "store" / "batches" / f"{made['id']}.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "expires_at": 1}))
    async with serve(settings=settings(tmp_path)) as api:
        batch = await ended(api, made["id"])
        assert batch["status"] == "expired"
        errors = await rows_of(api, batch["error_file_id"])
        assert {row["error"]["code"] for row in errors.values()} == {"batch_expired"}
        assert len(errors) == 40


async def test_batches_stand_behind_others_where_priorities_count(serve, tmp_path: Path) -> None:
    for low_first, sign in ((False, -1), (True, 1)):
        info = {"enable_priority_scheduling": True, "schedule_low_priority_values_first": low_first}
        async with serve(settings=settings(tmp_path / str(sign)), info=info) as api:
            made = (await submit(api, [line("a")])).json()
            await ended(api, made["id"])
            assert api.channel.generated()[-1].priority * sign > 1000
