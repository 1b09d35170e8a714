"""/v1/files: uploads, lists, contents, bounds, and what a restart finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sgl_core.serve.files.store import FileStore
from sgl_core.serve.http.settings import HttpSettings

pytestmark = pytest.mark.anyio
ROUTE = "/v1/files"


def settings(folder: Path, **more: Any) -> HttpSettings:
    return HttpSettings(file_storage=str(folder / "store"), **more)


async def upload(api: Any, content: bytes, name: str = "a.jsonl", purpose: str = "batch") -> Any:
    return await api.client.post(ROUTE, files={"file": (name, content)}, data={"purpose": purpose})


async def test_a_file_from_upload_to_deletion(serve, tmp_path: Path) -> None:
    async with serve(settings=settings(tmp_path)) as api:
        assert (await api.client.get(ROUTE)).json()["data"] == []
        assert not (tmp_path / "store").exists()
        made = (await upload(api, b"hello\x00\xff", "caf\u00e9.bin", "user_data")).json()
        assert (made["bytes"], made["filename"], made["purpose"], made["object"]) == (
            7,
            "caf\u00e9.bin",
            "user_data",
            "file",
        )
        one = f"{ROUTE}/{made['id']}"
        assert (await api.client.get(one)).json() == made
        assert (await api.client.get(f"{one}/content")).content == b"hello\x00\xff"
        assert (await api.client.get(f"{ROUTE}?purpose=batch")).json()["data"] == []
        assert (await api.client.delete(one)).json() == {"id": made["id"], "object": "file", "deleted": True}
        for path in (one, f"{one}/content"):
            assert (await api.client.get(path)).status_code == 404
        assert list((tmp_path / "store" / "files").iterdir()) == []


async def test_pages(serve, tmp_path: Path) -> None:
    async with serve(settings=settings(tmp_path)) as api:
        keys = [(await upload(api, b"x", f"{n}")).json()["id"] for n in range(5)]
        first = (await api.client.get(f"{ROUTE}?limit=2&order=asc")).json()
        assert [row["id"] for row in first["data"]] == keys[:2]
        assert first["has_more"] is True
        rest = (await api.client.get(f"{ROUTE}?order=asc&after={first['last_id']}")).json()
        assert [row["id"] for row in rest["data"]] == keys[2:]
        newest = (await api.client.get(ROUTE)).json()
        assert [row["id"] for row in newest["data"]] == keys[::-1]
        for query in ("limit=0", "limit=x", "order=up", "after=nope"):
            assert (await api.client.get(f"{ROUTE}?{query}")).status_code == 400


async def test_a_restart_finds_the_files_and_no_halves(serve, tmp_path: Path) -> None:
    async with serve(settings=settings(tmp_path)) as api:
        made = (await upload(api, b"kept")).json()
    folder = tmp_path / "store" / "files"
    (folder / "file-zz.json").write_text("{}")
    (folder / f"file-{'0' * 32}.json").write_text('{"id": "x"}')  # without its data
    async with serve(settings=settings(tmp_path)) as api:
        assert [row["id"] for row in (await api.client.get(ROUTE)).json()["data"]] == [made["id"]]
        assert (await api.client.get(f"{ROUTE}/{made['id']}/content")).content == b"kept"


async def test_refusals(serve, tmp_path: Path) -> None:
    async with serve(settings=settings(tmp_path, max_body_bytes=2000)) as api:
        assert (await upload(api, b"x" * 4000)).status_code == 413

        async def chunks() -> Any:
            for _ in range(50):
                yield b"x" * 100

        head = {"content-type": "multipart/form-data; boundary=b"}
        assert (await api.client.post(ROUTE, content=chunks(), headers=head)).status_code in (400, 413)
        for purpose in ("nothing", ""):
            response = await upload(api, b"x", purpose=purpose)
            assert response.status_code == 400
            assert response.json()["error"]["param"] == "purpose"
        response = await api.client.post(ROUTE, data={"purpose": "batch"}, files={"other": ("a", b"x")})
        assert response.json()["error"]["param"] == "file"
        assert (await api.client.post(ROUTE, json={"file": "x"})).status_code == 400
        for head in ({"content-type": "multipart/form-data"}, {"content-type": "multipart/form-data; boundary=b"}):
            assert (await api.client.post(ROUTE, content=b"--b\r\nnonsense", headers=head)).status_code == 400
        for key in ("nope", "..%2F..%2Fetc%2Fpasswd", "file-" + "0" * 32):
            assert (await api.client.get(f"{ROUTE}/{key}/content")).status_code == 404
    async with serve() as api:
        assert (await upload(api, b"x")).status_code == 501


def test_a_promised_file_is_adopted_once(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "files")
    results = tmp_path / "results"
    results.write_bytes(b"one")
    key = "file-" + "a" * 32
    meta = store.adopt(key, results, "out.jsonl", "batch_output")
    assert store.adopt(key, results, "out.jsonl", "batch_output") is meta
    assert store.path(key).read_bytes() == b"one"
