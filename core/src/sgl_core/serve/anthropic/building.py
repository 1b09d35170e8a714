"""An Anthropic message while it is made: events of the core in, the API's events out, and the message they add up to."""

from __future__ import annotations

import json
import uuid
from typing import Any

from sgl_core.serve.core.answer import Usage
from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.core.events import CallPiece, Event, Finished, ReasoningPiece, Started, TextPiece
from sgl_core.serve.http.error_forms import anthropic_body
from sgl_core.serve.http.sse import event
from sgl_core.serve.openai.chat import Chat


class Builder:
    """Builds ``message``. A plain answer is the message after the last event, a stream is the events."""

    def __init__(self, job: Chat) -> None:
        self._job = job
        self._open = ""
        self._arguments = ""
        self.message: dict[str, Any] = {
            "id": job.request.rid,
            "type": "message",
            "role": "assistant",
            "model": job.service.card.name,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": len(job.request.input_ids), "output_tokens": 0},
        }

    def take(self, batch: list[Event]) -> list[dict[str, Any]]:
        """The events of some of the core's."""
        out: list[dict[str, Any]] = []
        for entry in batch:
            if isinstance(entry, Started):
                self.message["usage"] = usage_object(Usage(entry.prompt_tokens, 0, entry.cached_tokens))
                out.append({"type": "message_start", "message": {**self.message, "content": []}})
                out.append({"type": "ping"})
            elif isinstance(entry, TextPiece):
                self._grow("text", entry.text, "text_delta", out)
            elif isinstance(entry, ReasoningPiece):
                self._grow("thinking", entry.text, "thinking_delta", out)
            elif isinstance(entry, CallPiece):
                self._call(entry, out)
            elif isinstance(entry, Finished):
                self._finish(entry, out)
        return out

    @property
    def _index(self) -> int:
        return len(self.message["content"]) - 1

    def _grow(self, kind: str, text: str, delta: str, out: list[dict[str, Any]]) -> None:
        if self._open != kind:
            self._close(out)
            block = {"type": kind, kind: ""}
            if kind == "thinking":
                block["signature"] = ""
            self._start(block, out)
        self.message["content"][-1][kind] += text
        self._delta({"type": delta, kind: text}, out)

    def _call(self, entry: CallPiece, out: list[dict[str, Any]]) -> None:
        if self._job.one_call and entry.index > 0:
            return
        if entry.name is not None:
            self._close(out)
            identity = entry.call_id or f"toolu_{uuid.uuid4().hex[:24]}"
            self._start({"type": "tool_use", "id": identity, "name": entry.name, "input": {}}, out)
            self._arguments = ""
        if entry.arguments:
            self._arguments += entry.arguments
            self._delta({"type": "input_json_delta", "partial_json": entry.arguments}, out)

    def _start(self, block: dict[str, Any], out: list[dict[str, Any]]) -> None:
        self.message["content"].append(block)
        self._open = block["type"]
        out.append({"type": "content_block_start", "index": self._index, "content_block": dict(block)})

    def _delta(self, delta: dict[str, Any], out: list[dict[str, Any]]) -> None:
        out.append({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _close(self, out: list[dict[str, Any]]) -> None:
        if not self._open:
            return
        if self._open == "tool_use":
            self.message["content"][-1]["input"] = _object(self._arguments)
        elif self._open == "thinking":
            self._delta({"type": "signature_delta", "signature": ""}, out)
        out.append({"type": "content_block_stop", "index": self._index})
        self._open = ""

    def _finish(self, entry: Finished, out: list[dict[str, Any]]) -> None:
        self._close(out)
        message = self.message
        message["usage"] = usage_object(Usage.of([entry], 1))
        message["stop_reason"] = "end_turn"
        if entry.reason == "length":
            message["stop_reason"] = "max_tokens"
        elif entry.calls and entry.reason == "stop":
            message["stop_reason"] = "tool_use"
        elif isinstance(entry.matched, str):
            message["stop_reason"], message["stop_sequence"] = "stop_sequence", entry.matched
        stop = {"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]}
        out.append({"type": "message_delta", "delta": stop, "usage": message["usage"]})
        out.append({"type": "message_stop"})


def _object(text: str) -> dict[str, Any]:
    """The arguments of a call. Those that are not an object (cut by the limit) are given as they stand, under one key."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {"_incomplete_json": text}
    return value if isinstance(value, dict) else {"_not_an_object": value}


def usage_object(usage: Usage) -> dict[str, Any]:
    """The API's ``usage``: what came from the cache is counted apart."""
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": usage.completion_tokens,
    }


class MessageStream:
    """Writes the SSE form; see sgl_core.serve.http.sse.StreamWriter. There is no end mark: message_stop is it."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def write(self, batch: list[Event]) -> bytes:
        return b"".join([event(entry, entry["type"]) for entry in self._builder.take(batch)])

    def end(self) -> bytes:
        return b""

    def error(self, error: RequestError) -> bytes:
        return event(anthropic_body(error), "error")
