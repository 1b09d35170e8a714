"""Uploads as multipart forms, bounded, spooled to disk while they come."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from sgl_core.serve.core.errors import RequestError, refuse
from sgl_core.serve.core.validate import check_text
from sgl_core.serve.http.errors import ClientGone

PURPOSES = frozenset({"batch", "batch_output", "assistants", "fine-tune", "vision", "user_data", "evals"})


@dataclass(slots=True)
class Upload:
    """One file of a form."""

    file: UploadFile
    filename: str
    purpose: str


async def read_upload(request: Request, most: int) -> Upload:
    """The form's ``file`` and ``purpose``. Raises RequestError: 413 for too many bytes, 400 for what is missing or wrong."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise RequestError("the body must be multipart/form-data with file and purpose", code="invalid_form")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise _too_large(most)
    try:
        form = await MultiPartParser(request.headers, _counted(request, most), max_files=1, max_fields=16).parse()
    except MultiPartException as error:
        raise RequestError(f"the form cannot be read: {error.message}", code="invalid_form") from None
    except (ValueError, KeyError, UnicodeDecodeError):
        raise RequestError("the form cannot be read", code="invalid_form") from None
    except ClientDisconnect:
        raise ClientGone from None
    file, purpose = form.get("file"), form.get("purpose")
    if not isinstance(file, UploadFile):
        raise RequestError("file: is required", param="file", code="missing_required_parameter")
    if purpose not in PURPOSES:
        await file.close()
        raise refuse("purpose", f"must be one of {', '.join(sorted(PURPOSES))}")
    return Upload(file, check_text(file.filename or "file", "file"), str(purpose))


async def _counted(request: Request, most: int) -> AsyncGenerator[bytes, None]:
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most:
            raise _too_large(most)
        yield chunk


def _too_large(most: int) -> RequestError:
    return RequestError(f"the upload is larger than {most} bytes", status=413, code="body_too_large")
