"""One server of a comparison: what it is asked with, and how a scenario is played on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sgl_core.serve.client import Client, HttpError

from .measure import Record, measure
from .scenarios import Conversation, Scenario, conversations

ROUTE = "/v1/chat/completions"
OPTIONAL = ("ignore_eos", "min_tokens", "stream_options", "logit_bias", "temperature")
"""Fields that a server may refuse; without them it is still measured, with what the note says."""


@dataclass(slots=True, kw_only=True)
class Rival:
    """A server under its short name. ``drop`` are fields it refuses; ``ban_eos`` is a token id that a logit bias forbids
    (for servers that ignore ``ignore_eos``); ``extra`` goes into every request; ``pid`` is the root of its processes."""

    name: str
    client: Client
    model: str = ""
    drop: set[str] = field(default_factory=set)
    ban_eos: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    pid: int | None = None
    seconds: float = 600.0

    def body(self, messages: Sequence[Mapping[str, Any]], output: int, schema: Any = None) -> dict[str, Any]:
        """One request: exactly ``output`` tokens, or at most so many that fit ``schema``."""
        out: dict[str, Any] = {
            "model": self.model,
            "messages": list(messages),
            "max_tokens": output,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if schema is None:
            out |= {"ignore_eos": True, "min_tokens": output}
            if self.ban_eos is not None:
                out["logit_bias"] = {str(self.ban_eos): -100}
        else:
            named = {"name": "answer", "schema": schema, "strict": True}
            out["response_format"] = {"type": "json_schema", "json_schema": named}
        out |= self.extra
        return {name: value for name, value in out.items() if name not in self.drop}

    async def prepare(self) -> list[str]:
        """Find the model's name, warm up, and leave out what the server refuses; says what that was.

        Raises HttpError where it cannot be measured at all.
        """
        if not self.model:
            try:
                self.model = (await self.client.get("/v1/models"))["data"][0]["id"]
            except (HttpError, LookupError, TypeError) as error:
                raise HttpError(f"{self.name}: no list of models ({error}); give --model {self.name}:NAME") from None
        notes: list[str] = []
        for _ in range(len(OPTIONAL) + 1):
            record = await self.ask([{"role": "user", "content": "Tell me about rivers and bridges."}], 8)
            if not record.error:
                if record.counted:
                    notes.append(f"{self.name} sends no usage: its output tokens are its events with text")
                return notes
            refused = [name for name in OPTIONAL if name in record.error and name not in self.drop]
            if not refused or not record.error.startswith(("HTTP 400", "HTTP 422")):
                break
            self.drop.update(refused)
            notes.append(f"{self.name} refuses {', '.join(refused)}: left out")
        raise HttpError(f"{self.name} ({self.client.url}): {record.error}; --drop {self.name}:FIELD leaves a field out")

    async def ask(self, messages: Sequence[Mapping[str, Any]], output: int, schema: Any = None) -> Record:
        """One streamed answer, or a record with an error after ``seconds``."""
        sent = time.perf_counter()
        try:
            return await asyncio.wait_for(
                measure(self.client, ROUTE, self.body(messages, output, schema)), self.seconds
            )
        except asyncio.TimeoutError:
            return Record(sent=sent, error=f"no whole answer within {self.seconds:g} s")

    async def play(self, scenario: Scenario, seed: str) -> tuple[list[Record], float]:
        """The whole scenario: a record of each request, and how long it took in seconds."""
        waiting = iter(conversations(scenario, seed))
        records: list[Record] = []

        async def one_after_the_other() -> None:
            for conversation in waiting:
                records.extend(await self._converse(scenario, conversation))

        begun = time.perf_counter()
        await asyncio.gather(*(one_after_the_other() for _ in range(scenario.at_once)))
        return records, time.perf_counter() - begun

    async def _converse(self, scenario: Scenario, conversation: Conversation) -> list[Record]:
        """The turns of a chat, each with all that was said before; a failed turn ends it."""
        said: list[dict[str, Any]] = [{"role": "system", "content": conversation.system}]
        records: list[Record] = []
        for question in conversation.questions:
            said.append({"role": "user", "content": question})
            record = await self.ask(said, scenario.output, scenario.schema)
            records.append(record)
            if record.error:
                break
            said.append({"role": "assistant", "content": record.text})
        return records
