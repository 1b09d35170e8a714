"""/v1/chat/completions, the way out: its plain answer and its stream."""

from __future__ import annotations

from typing import Any

import msgspec

from sgl_core.serve.core.answer import Answer, Call, Usage, new_call_id
from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.core.events import CallPiece, Event, Finished, Piece, ReasoningPiece, Started, TextPiece
from sgl_core.serve.http.sse import DONE, error_event, event

from .chat import Chat
from .fields import usage_object
from .logprobs import chat_logprobs

CHUNK = "chat.completion.chunk"


def plain(job: Chat, answers: list[Answer]) -> dict[str, Any]:
    """The whole answer."""
    choices = [_choice(job, answer) for answer in answers]
    usage = Usage.of([answer.end for answer in answers], job.request.n)
    return {**job.frame("chat.completion", choices), "usage": usage_object(usage)}


def _choice(job: Chat, answer: Answer) -> dict[str, Any]:
    calls = answer.calls[:1] if job.one_call else answer.calls
    message: dict[str, Any] = {
        "role": "assistant",
        "content": answer.text if answer.text or not (calls or answer.reasoning) else None,
        "refusal": None,
        "reasoning_content": answer.reasoning or None,
        "tool_calls": [_call(call) for call in calls] or None,
    }
    logprobs = None
    if job.top_logprobs is not None:
        logprobs = chat_logprobs(answer.logprobs, job.top_logprobs, job.service.detokenizers)
    choice = {
        "index": answer.index,
        "message": message,
        "logprobs": logprobs,
        "finish_reason": finish_reason(answer.end),
        "matched_stop": answer.end.matched,
    }
    if job.token_ids:
        choice["token_ids"] = answer.token_ids
    return choice


def _call(call: Call) -> dict[str, Any]:
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def finish_reason(end: Finished) -> str:
    """``tool_calls`` only where calls were made."""
    return "tool_calls" if end.calls and end.reason == "stop" else end.reason


class ChatStream:
    """Writes the SSE form; see sgl_core.serve.http.sse.StreamWriter."""

    def __init__(self, job: Chat) -> None:
        self._job = job
        self._ends: list[Finished] = []
        self._prompts: dict[int, int] = {}
        self._counts: dict[int, int] = {}
        self._reasoning: dict[int, str] = {}
        head = msgspec.json.encode(job.frame(CHUNK, []))
        self._head = b"data: " + head[: -len(b"]}")] + b'{"index":'
        self._tail = b'}],"usage":null}\n\n' if job.usage_last else b"}]}\n\n"
        self._simple = job.top_logprobs is None and not job.usage_always and not job.token_ids

    def write(self, batch: list[Event]) -> bytes:
        return b"".join([self._event(entry) for entry in batch])

    def _event(self, entry: Event) -> bytes:
        if isinstance(entry, TextPiece):
            if self._simple:
                return b"%b%d%b%b%b%b" % (
                    self._head,
                    entry.choice,
                    b',"delta":{"content":',
                    msgspec.json.encode(entry.text),
                    b'},"logprobs":null,"finish_reason":null',
                    self._tail,
                )
            return self._chunk(entry, {"content": entry.text})
        if isinstance(entry, Started):
            self._prompts[entry.choice] = entry.prompt_tokens
            return self._emit(entry.choice, {"role": "assistant", "content": ""}, None)
        if isinstance(entry, ReasoningPiece):
            return self._reason(entry)
        if isinstance(entry, CallPiece):
            return self._call(entry)
        if isinstance(entry, Finished):
            self._ends.append(entry)
            held = self._reasoning.pop(entry.choice, "")
            return self._chunk(entry, {"reasoning_content": held} if held else {}, entry)
        raise RequestError("an event without a form in a chat stream", status=500)

    def _reason(self, entry: ReasoningPiece) -> bytes:
        if self._job.stream_reasoning:
            return self._chunk(entry, {"reasoning_content": entry.text})
        # The client wants its thinking in one piece: it is given with the end of the choice.
        self._reasoning[entry.choice] = self._reasoning.get(entry.choice, "") + entry.text
        return self._chunk(entry, {}) if entry.logprobs else b""

    def _call(self, entry: CallPiece) -> bytes:
        if self._job.one_call and entry.index > 0:
            return b""
        function: dict[str, Any] = {"arguments": entry.arguments}
        call: dict[str, Any] = {"index": entry.index}
        if entry.name is not None:
            call |= {"id": entry.call_id or new_call_id(), "type": "function"}
            function = {"name": entry.name, "arguments": entry.arguments}
        return self._chunk(entry, {"tool_calls": [{**call, "function": function}]})

    def _chunk(self, entry: Piece, delta: dict[str, Any], end: Finished | None = None) -> bytes:
        job, index = self._job, entry.choice
        self._counts[index] = self._counts.get(index, 0) + len(entry.token_ids)
        logprobs = None
        if entry.logprobs and job.top_logprobs is not None:
            logprobs = chat_logprobs(entry.logprobs, job.top_logprobs, job.service.detokenizers)
        return self._emit(index, delta, logprobs, end, entry.token_ids)

    def _emit(
        self,
        index: int,
        delta: dict[str, Any],
        logprobs: dict[str, Any] | None,
        end: Finished | None = None,
        token_ids: list[int] | None = None,
    ) -> bytes:
        choice: dict[str, Any] = {"index": index, "delta": delta, "logprobs": logprobs}
        choice["finish_reason"] = None if end is None else finish_reason(end)
        if end is not None:
            choice["matched_stop"] = end.matched
        if self._job.token_ids:
            choice["token_ids"] = token_ids or []
        chunk = self._job.frame(CHUNK, [choice])
        if self._job.usage_always:
            chunk["usage"] = usage_object(Usage(self._prompts.get(index, 0), self._counts.get(index, 0), 0))
        elif self._job.usage_last:
            chunk["usage"] = None
        return event(chunk)

    def end(self) -> bytes:
        if not self._job.usage_last:
            return DONE
        ends = sorted(self._ends, key=lambda end: end.choice)
        return event({**self._job.frame(CHUNK, []), "usage": usage_object(Usage.of(ends, self._job.request.n))}) + DONE

    def error(self, error: RequestError) -> bytes:
        return error_event(error)
