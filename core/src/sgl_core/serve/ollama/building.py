"""An Ollama answer while it is made: events of the core in, lines of NDJSON out, and the one object they add up to."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import msgspec

from sgl_core.serve.core.answer import Call, new_call_id
from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.core.events import (
    CallPiece,
    Event,
    Finished,
    ReasoningPiece,
    Started,
    TextPiece,
    TokenLogprob,
)
from sgl_core.serve.core.service import Service
from sgl_core.serve.http.error_forms import ollama_body
from sgl_core.serve.openai.logprobs import finite


def now() -> str:
    """The present time as Ollama writes it."""
    return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")


class Builder:
    """One answer of /api/chat (``chat``) or /api/generate. ``top`` None means that no logprobs were asked for."""

    def __init__(self, service: Service, model: str, *, chat: bool, top: int | None, one_call: bool = False) -> None:
        self._service = service
        self._model = model
        self._chat = chat
        self._top = top
        self._one_call = one_call
        self._begun = self._first = time.monotonic()
        self._call: Call | None = None
        self._call_logprobs: list[TokenLogprob] = []
        self._text = self._thinking = ""
        self._calls: list[dict[str, Any]] = []
        self._logprobs: list[dict[str, Any]] = []
        self._last: dict[str, Any] = {}

    def take(self, batch: list[Event]) -> list[dict[str, Any]]:
        """The lines of some of the core's events. Calls come whole, as Ollama gives them."""
        out: list[dict[str, Any]] = []
        for entry in batch:
            if isinstance(entry, Started):
                self._first = time.monotonic()
            elif isinstance(entry, TextPiece):
                self._text += entry.text
                out.append(self._line(self._content(entry.text), entry.logprobs))
            elif isinstance(entry, ReasoningPiece):
                self._thinking += entry.text
                out.append(self._line(self._content("", thinking=entry.text), entry.logprobs))
            elif isinstance(entry, CallPiece):
                self._take_call(entry, out)
            elif isinstance(entry, Finished):
                self._end_call(out)
                self._last = self._ending(entry)
                out.append(self._line(self._content(""), entry.logprobs) | self._last)
        return out

    @property
    def answer(self) -> dict[str, Any]:
        """The whole answer, after the last event."""
        out = self._line(self._content(self._text, self._thinking, self._calls)) | self._last
        if self._top is not None:
            out["logprobs"] = self._logprobs
        return out

    def _take_call(self, entry: CallPiece, out: list[dict[str, Any]]) -> None:
        if self._one_call and entry.index > 0:
            return
        if entry.name is not None:
            self._end_call(out)
            self._call = Call(entry.name, entry.call_id or new_call_id())
        if self._call is not None:
            self._call.arguments += entry.arguments
            self._call_logprobs += entry.logprobs

    def _end_call(self, out: list[dict[str, Any]]) -> None:
        if self._call is None:
            return
        call, self._call = self._call, None
        try:
            arguments = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError):
            arguments = {"_incomplete_json": call.arguments}
        if not isinstance(arguments, dict):
            arguments = {"_not_an_object": arguments}
        function = {"index": len(self._calls), "name": call.name, "arguments": arguments}
        self._calls.append({"id": call.call_id, "function": function})
        held, self._call_logprobs = self._call_logprobs, []
        out.append(self._line(self._content("", calls=self._calls[-1:]), held))

    def _content(self, text: str, thinking: str = "", calls: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
        more: dict[str, Any] = {"thinking": thinking} if thinking else {}
        if not self._chat:
            return {"response": text, **more}
        if calls:
            more["tool_calls"] = list(calls)
        return {"message": {"role": "assistant", "content": text, **more}}

    def _line(self, content: dict[str, Any], logprobs: Sequence[TokenLogprob] = ()) -> dict[str, Any]:
        line = {"model": self._model, "created_at": now(), **content, "done": False}
        if logprobs and self._top is not None:
            line["logprobs"] = [self._logprob(item) for item in logprobs]
            self._logprobs += line["logprobs"]
        return line

    def _ending(self, entry: Finished) -> dict[str, Any]:
        end = time.monotonic()
        return {
            "done": True,
            "done_reason": "length" if entry.reason == "length" else "stop",
            "total_duration": nanoseconds(end - self._begun),
            "load_duration": 0,
            "prompt_eval_count": entry.prompt_tokens,
            "prompt_eval_duration": nanoseconds(self._first - self._begun),
            "eval_count": entry.completion_tokens,
            "eval_duration": nanoseconds(end - self._first),
        }

    def _logprob(self, entry: TokenLogprob) -> dict[str, Any]:
        out = self._token(entry.token_id, entry.logprob or 0.0)
        if self._top:
            out["top_logprobs"] = [self._token(token, value) for token, value in entry.top[: self._top]]
        return out

    def _token(self, token: int, value: float) -> dict[str, Any]:
        raw = self._service.detokenizers.raw(token)
        return {"token": raw.decode("utf-8", "replace"), "logprob": finite(value), "bytes": list(raw)}


def nanoseconds(seconds: float) -> int:
    """A duration as Ollama writes it; never 0, which its clients divide by."""
    return max(int(seconds * 1e9), 1)


class Lines:
    """Writes the NDJSON form; see sgl_core.serve.http.sse.StreamWriter."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def write(self, batch: list[Event]) -> bytes:
        return b"".join([msgspec.json.encode(line) + b"\n" for line in self._builder.take(batch)])

    def end(self) -> bytes:
        return b""

    def error(self, error: RequestError) -> bytes:
        return msgspec.json.encode(ollama_body(error)) + b"\n"
