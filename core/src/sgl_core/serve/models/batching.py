"""Batches of a server of several models: each line goes to the model it names, which is loaded for it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from sgl_core.serve.batches.serving import Leased
from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.responses.store import ResponseStore

from .pool import ModelPool


class PoolServing:
    """See :class:`sgl_core.serve.batches.serving.Serving`. A lease is a line's, so that a batch keeps no model from leaving."""

    def __init__(self, pool: ModelPool, responses: ResponseStore) -> None:
        self._pool = pool
        self._responses = responses

    def check_open(self) -> None:
        if self._pool.draining:
            raise RequestError("the server is shutting down", status=503, code="shutting_down")

    async def wait_ready(self) -> None:
        """Models are loaded as lines ask for them."""

    def key(self, body: Mapping[str, Any]) -> str:
        named = body.get("model")
        return named if isinstance(named, str) and named else self._pool.default.name

    @contextlib.asynccontextmanager
    async def lease(self, key: str) -> AsyncIterator[Leased]:
        async with self._pool.lease(key) as slot:
            assert slot.service is not None, "a leased model is loaded"
            yield slot.service, self._responses

    def requests_at_once(self, key: str) -> int:
        slot = self._pool.slots.get(key)
        front = slot.service.front if slot is not None and slot.service is not None else None
        return int(front.capacity.get("max_requests") or 0) if front is not None else 0

    def others_wait(self, key: str) -> bool:
        slot = self._pool.slots.get(key)
        waits = slot is not None and slot.service is not None and slot.service.front.stats.waiting > 0
        return waits or any(other.waiters for name, other in self._pool.slots.items() if name != key)

    def ends(self, error: RequestError) -> bool:
        return error.status == 503 and self._pool.draining
