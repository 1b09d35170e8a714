"""What serves the lines of a batch: the server's one model, or the model that each line names among several."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias

from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.core.service import Service
from sgl_core.serve.responses.store import ResponseStore

Leased: TypeAlias = tuple[Service, ResponseStore]


class Serving(Protocol):
    """Lines of one ``key`` are served one after the other, before those of the next key: a key is a model."""

    def check_open(self) -> None:
        """Raises RequestError (503) where no new work is taken."""
        ...

    async def wait_ready(self) -> None:
        """Until lines can be served."""
        ...

    def key(self, body: Mapping[str, Any]) -> str:
        """The key of a line's body."""
        ...

    def lease(self, key: str) -> AbstractAsyncContextManager[Leased]:
        """The model, which stays inside the block. Raises RequestError where it cannot be had."""
        ...

    def requests_at_once(self, key: str) -> int:
        """What the model's worker serves at once; 0 where that is not known yet."""
        ...

    def others_wait(self, key: str) -> bool:
        """Whether requests of others wait for it."""
        ...

    def ends(self, error: RequestError) -> bool:
        """Whether an error means that the server takes no more requests, rather than that this one fails."""
        ...


class OneModel:
    """The server of one model."""

    def __init__(self, service: Service, responses: ResponseStore) -> None:
        self._leased = service, responses
        self._front = service.front

    def check_open(self) -> None:
        self._front.check_open()

    async def wait_ready(self) -> None:
        await self._front.wait_ready()

    def key(self, body: Mapping[str, Any]) -> str:
        return ""

    @contextlib.asynccontextmanager
    async def lease(self, key: str) -> AsyncIterator[Leased]:
        yield self._leased

    def requests_at_once(self, key: str) -> int:
        return int(self._front.capacity.get("max_requests") or 0)

    def others_wait(self, key: str) -> bool:
        return self._front.stats.waiting > 0

    def ends(self, error: RequestError) -> bool:
        return error.status == 503
