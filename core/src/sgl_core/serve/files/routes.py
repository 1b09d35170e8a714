"""The routes of files."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.http.errors import endpoint, json_response

from .pages import page
from .store import FileStore
from .upload import read_upload


def files_of(request: Request) -> FileStore:
    """The server's files. Raises RequestError (501) where it keeps none."""
    files: FileStore | None = request.app.state.files
    if files is None:
        raise RequestError("the server keeps no files (--file-storage-path)", status=501, code="not_implemented")
    return files


async def upload(request: Request) -> Response:
    files = files_of(request)
    found = await read_upload(request, request.app.state.settings.max_body_bytes)
    try:
        return json_response(await asyncio.to_thread(files.add, found.file.file, found.filename, found.purpose))
    finally:
        await found.file.close()


async def listed(request: Request) -> Response:
    purpose = request.query_params.get("purpose")
    found = [row for row in files_of(request).list() if purpose in (None, row["purpose"])]
    return json_response(page(request, found, default=10_000, most=10_000))


async def retrieve(request: Request) -> Response:
    return json_response(files_of(request).get(request.path_params["file_id"]))


async def content(request: Request) -> Response:
    path = files_of(request).path(request.path_params["file_id"])
    return FileResponse(path, media_type="application/octet-stream")


async def delete(request: Request) -> Response:
    key = request.path_params["file_id"]
    files_of(request).delete(key)
    return json_response({"id": key, "object": "file", "deleted": True})


def routes() -> list[Route]:
    one = "/v1/files/{file_id}"
    return [
        Route("/v1/files", endpoint(upload), methods=["POST"]),
        Route("/v1/files", endpoint(listed), methods=["GET"]),
        Route(one, endpoint(retrieve), methods=["GET"]),
        Route(one, endpoint(delete), methods=["DELETE"]),
        Route(f"{one}/content", endpoint(content), methods=["GET"]),
    ]
