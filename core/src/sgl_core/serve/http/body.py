"""Request bodies: bounded, strict about text, and turned into a pydantic model whose errors name the field."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.core.validate import check_texts, shown

from .errors import ClientGone

M = TypeVar("M", bound=BaseModel)
_SURROGATE = re.compile(rb"\\[uU][dD][89a-fA-F]")


async def read_json(request: Request, *, empty_ok: bool = False) -> dict[str, Any]:
    """The body as a JSON object. Raises RequestError: 413 when too large, 400 when it is not a JSON object of valid text."""
    raw = await read_bytes(request, request.app.state.settings.max_body_bytes)
    if not raw.strip() and empty_ok:
        return {}
    try:
        value = json.loads(raw)
    except RecursionError:
        raise RequestError("the body is nested too deeply", code="invalid_json") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise RequestError(f"the body is not JSON: {error}", code="invalid_json") from None
    if not isinstance(value, dict):
        raise RequestError(f"the body must be a JSON object, not {shown(value)}", code="invalid_json")
    if _SURROGATE.search(raw):
        try:
            check_texts(value, "")
        except RecursionError:
            raise RequestError("the body is nested too deeply", code="invalid_json") from None
    return value


async def read_model(request: Request, model: type[M]) -> M:
    """The body as ``model``. Raises RequestError naming the first field that is wrong."""
    return parse_model(await read_json(request), model)


def parse_model(value: dict[str, Any], model: type[M], where: str = "") -> M:
    """A JSON object as ``model``; see :func:`read_model`. ``where`` is the field of the body that holds the object."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _first(error, where) from None


def _first(error: ValidationError, where: str) -> RequestError:
    first = error.errors(include_url=False, include_context=False)[0]
    path = where
    for step in first["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    code = "missing_required_parameter" if first["type"] == "missing" else "invalid_type"
    message = "is required" if first["type"] == "missing" else first["msg"]
    return RequestError(f"{path or 'the body'}: {message}", param=path or None, code=code)


async def read_bytes(request: Request, most: int) -> bytes:
    """The body, at most ``most`` bytes. Raises RequestError (413) for a larger one, ClientGone where the client left."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise _too_large(most)
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > most:
                raise _too_large(most)
            chunks.append(chunk)
    except ClientDisconnect:
        raise ClientGone from None
    return b"".join(chunks)


def _too_large(most: int) -> RequestError:
    return RequestError(f"the body is larger than {most} bytes", status=413, code="body_too_large")
