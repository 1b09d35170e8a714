"""One model of several: prepared at start, with a worker, a service and an application while it is loaded."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from starlette.types import ASGIApp

from sgl_core.engine.process import ProcessChannel
from sgl_core.serve.core.front import Channel
from sgl_core.serve.core.metrics import Metrics
from sgl_core.serve.core.service import Service
from sgl_core.serve.prepare import Prepared

State = Literal["unloaded", "loading", "ready", "unloading"]


@dataclass(slots=True, kw_only=True, eq=False)
class Slot:
    """``memory`` is what the budget counts in bytes: what the operator reserves, or an allowance until the loaded model says
    what it takes. ``leases`` are requests inside, ``waiters`` those that wait for the model; ``leaving`` closes it to new ones.
    """

    name: str
    prepared: Prepared
    metrics: Metrics
    reserved: int | None
    memory: int
    preload: bool = False
    state: State = "unloaded"
    error: str = ""
    service: Service | None = None
    channel: Channel | None = None
    app: ASGIApp | None = None
    leases: int = 0
    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    leaving: bool = False
    last_used: float = 0.0
    loads: int = 0
    load_seconds: float = 0.0
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def usable(self) -> bool:
        """Whether requests can be served now."""
        return self.state == "ready" and self.service is not None and self.service.front.state == "ready"

    @property
    def idle(self) -> bool:
        """Whether nothing would be lost by unloading. Runs in the background hold no lease."""
        return self.leases == 0 and (self.service is None or self.service.front.running == 0)

    @property
    def held(self) -> int:
        """Bytes that the budget counts now."""
        return self.memory if self.state != "unloaded" else 0

    def measured(self, capacity: dict[str, Any]) -> int:
        """Bytes of the loaded model: its weights and its KV pool, unless the operator reserved a figure."""
        if self.reserved is not None:
            return self.reserved
        tokens = int(capacity.get("num_pages") or 0) * int(capacity.get("page_size") or 0)
        weights = int(capacity.get("weight_bytes") or 0) or self.prepared.files.weight_bytes
        return weights + tokens * int(capacity.get("kv_bytes_per_token") or 0)

    def used(self) -> None:
        """Note that a request came or went."""
        self.last_used = time.monotonic()

    def describe(self) -> dict[str, Any]:
        """The model in /v1/models."""
        model, service = self.prepared.plan.model, self.service
        out: dict[str, Any] = {
            "id": self.name,
            "object": "model",
            "created": self.created,
            "owned_by": "sgl",
            "root": str(self.prepared.files.path),
            "max_model_len": (service.card.context_length if service else model.context_length) or None,
            "state": self.state if self.state != "ready" or self.usable else "dead",
            "memory": self.memory,
            "requests": self.leases,
            "loads": self.loads,
            "load_seconds": round(self.load_seconds, 3),
        }
        return {**out, "error": self.error} if self.error else out


def make_channel(slot: Slot) -> Channel:
    """The model's own worker process."""
    return ProcessChannel(slot.prepared.plan)
