"""Refusals of the shared translation under the field names of the API that was asked."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping

from .core.errors import RequestError

_HEAD = re.compile(r"[A-Za-z_]+")


@contextlib.contextmanager
def renamed(names: Mapping[str, str]) -> Iterator[None]:
    """RequestErrors raised inside name the client's own fields.

    ``names`` maps the first word of a chat field's path (``max_tokens``, ``messages``) to the client's; others keep their name.
    """
    try:
        yield
    except RequestError as error:
        own = _renamed(error.param, names)
        if own is None or error.param is None:
            raise
        message = error.message
        if message.startswith(error.param):
            message = own + message[len(error.param) :]
        elif (head := _HEAD.match(message)) is not None and head[0] in names:
            message = names[head[0]] + message[head.end() :]
        raise RequestError(message, param=own, status=error.status, code=error.code) from None


def _renamed(param: str | None, names: Mapping[str, str]) -> str | None:
    head = _HEAD.match(param or "")
    if param is None or head is None or head[0] not in names:
        return None
    return names[head[0]] + param[head.end() :]
