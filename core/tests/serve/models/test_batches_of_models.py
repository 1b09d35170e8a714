"""Files and batches of a server of several models: lines go to the model they name, models are swapped once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytestmark = pytest.mark.anyio


async def run(server: Any, rows: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A finished batch of completions, and its results (answers, then errors)."""
    text = "".join(
        json.dumps({"custom_id": str(at), "method": "POST", "url": "/v1/completions", "body": row}) + "\n"
        for at, row in enumerate(rows)
    )
    files = {"file": ("in.jsonl", text.encode()), "purpose": (None, "batch")}
    file = (await server.client.post("/v1/files", files=files)).json()
    body = {"input_file_id": file["id"], "endpoint": "/v1/completions", "completion_window": "24h"}
    batch = (await server.client.post("/v1/batches", json=body)).json()
    for _ in range(5000):
        batch = (await server.client.get(f"/v1/batches/{batch['id']}")).json()
        if batch["status"] in ("completed", "failed"):
            break
        await asyncio.sleep(0.001)
    found = []
    for what in ("output_file_id", "error_file_id"):
        if batch[what]:
            content = await server.client.get(f"/v1/files/{batch[what]}/content")
            found += [json.loads(line) for line in content.text.splitlines()]
    return batch, found


async def test_each_line_goes_to_its_model_and_models_are_swapped_once(several: Any) -> None:
    async with several(budget=10) as server:
        rows = [{"model": "ab"[at % 2], "prompt": "hi", "max_tokens": 2} for at in range(12)]
        batch, results = await run(server, rows)
        assert batch["status"] == "completed"
        assert batch["request_counts"] == {"total": 12, "completed": 12, "failed": 0}
        assert {(row["custom_id"], row["response"]["body"]["model"]) for row in results} == {
            (str(at), "ab"[at % 2]) for at in range(12)
        }
        assert {name: len(started) for name, started in server.workers.items()} == {"a": 1, "b": 1}
        assert [len(server.workers[name][0].generated()) for name in "ab"] == [6, 6]


async def test_lines_without_a_model_go_to_the_first_and_unknown_ones_fail(several: Any) -> None:
    async with several() as server:
        rows = [{"prompt": "hi", "max_tokens": 1}, {"model": "nobody", "prompt": "hi"}]
        batch, results = await run(server, rows)
        assert batch["request_counts"] == {"total": 2, "completed": 1, "failed": 1}
        assert results[0]["response"]["body"]["model"] == "a"
        assert results[1]["response"]["status_code"] == 404


async def test_one_list_of_files_for_all_models(several: Any) -> None:
    async with several(api_key="k") as server:
        assert (await server.client.get("/v1/files")).status_code == 401
        assert (await server.client.get("/v1/files", headers={"authorization": "Bearer k"})).json()["data"] == []
        assert server.workers == {}
