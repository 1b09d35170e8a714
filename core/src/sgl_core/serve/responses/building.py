"""A response while it is made: events of the core in, the API's ordered events out, and the response object they add up to."""

from __future__ import annotations

import copy
import time
import uuid
from typing import Any

from sgl_core.serve.core.answer import Usage, new_call_id
from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.core.events import CallPiece, Event, Finished, Piece, ReasoningPiece, TextPiece
from sgl_core.serve.openai.chat import Chat
from sgl_core.serve.openai.logprobs import chat_logprobs

_TEXT = ("message", "output_text", "response.output_text")
_THINKING = ("reasoning", "reasoning_text", "response.reasoning_text")


class Builder:
    """Builds ``response`` in place. A plain answer is the object after the last event, a stream is the events."""

    def __init__(self, job: Chat, response: dict[str, Any]) -> None:
        self._job = job
        self.response = response
        self._number = 0
        self._kind = ""
        self._calls: set[int] = set()

    @property
    def _item(self) -> dict[str, Any]:
        item: dict[str, Any] = self.response["output"][-1]
        return item

    def begin(self) -> list[dict[str, Any]]:
        """The first two events."""
        created = self._event("response.created", response=self._snapshot())
        self.response["status"] = "in_progress"
        return [created, self._event("response.in_progress", response=self._snapshot())]

    def take(self, batch: list[Event]) -> list[dict[str, Any]]:
        """The events of some of the core's."""
        out: list[dict[str, Any]] = []
        for entry in batch:
            if isinstance(entry, TextPiece):
                self._text(entry, _TEXT, out)
            elif isinstance(entry, ReasoningPiece):
                self._text(entry, _THINKING, out)
            elif isinstance(entry, CallPiece):
                self._call(entry, out)
            elif isinstance(entry, Finished):
                self._finish(entry, out)
        return out

    def fail(self, error: RequestError) -> list[dict[str, Any]]:
        """The last event of a response that failed."""
        code = "rate_limit_exceeded" if error.status == 429 else "server_error"
        self.response["error"] = {"code": code, "message": error.message}
        return [self._end("failed")]

    def cancel(self) -> list[dict[str, Any]]:
        """The last event of a response that was cancelled before it ended."""
        out: list[dict[str, Any]] = []
        if self.response["status"] in ("queued", "in_progress"):
            self._close("incomplete", out)
            out.append(self._end("cancelled"))
        return out

    # -- items --------------------------------------------------------------------------------------------------------

    def _text(self, entry: TextPiece | ReasoningPiece, kind: tuple[str, str, str], out: list[dict[str, Any]]) -> None:
        if self._kind != kind[0]:
            self._close("completed", out)
            self._open_text(kind, out)
        part = self._item["content"][0]
        part["text"] += entry.text
        more: dict[str, Any] = {}
        if kind is _TEXT:
            more["logprobs"] = self._logprobs(entry)
            part["logprobs"] += more["logprobs"]
        out.append(self._part_event(f"{kind[2]}.delta", delta=entry.text, **more))

    def _open_text(self, kind: tuple[str, str, str], out: list[dict[str, Any]]) -> None:
        name, part_type, _ = kind
        part: dict[str, Any] = {"type": part_type, "text": ""}
        item: dict[str, Any]
        if kind is _TEXT:
            part |= {"annotations": [], "logprobs": []}
            item = {"id": f"msg_{uuid.uuid4().hex}", "type": name, "status": "in_progress", "role": "assistant"}
        else:
            item = {"id": f"rs_{uuid.uuid4().hex}", "type": name, "status": "in_progress", "summary": []}
        self._open({**item, "content": []}, out)
        self._item["content"].append(part)
        out.append(self._part_event("response.content_part.added", part=copy.deepcopy(part)))

    def _call(self, entry: CallPiece, out: list[dict[str, Any]]) -> None:
        if self._job.one_call and entry.index > 0:
            return
        if entry.name is not None:
            self._close("completed", out)
            self._open(
                {
                    "id": f"fc_{uuid.uuid4().hex}",
                    "type": "function_call",
                    "status": "in_progress",
                    "call_id": entry.call_id or new_call_id(),
                    "name": entry.name,
                    "arguments": "",
                },
                out,
            )
        if entry.arguments:
            self._item["arguments"] += entry.arguments
            out.append(self._item_event("response.function_call_arguments.delta", delta=entry.arguments))

    def _open(self, item: dict[str, Any], out: list[dict[str, Any]]) -> None:
        self.response["output"].append(item)
        self._kind = item["type"]
        out.append(self._event("response.output_item.added", output_index=self._index, item=copy.deepcopy(item)))

    def _close(self, status: str, out: list[dict[str, Any]]) -> None:
        """End the item that is open, if one is."""
        if not self._kind:
            return
        item = self._item
        item["status"] = status
        if self._kind == "function_call":
            done = {"name": item["name"], "arguments": item["arguments"]}
            out.append(self._item_event("response.function_call_arguments.done", **done))
        else:
            _, _, stem = _TEXT if self._kind == "message" else _THINKING
            part = item["content"][0]
            more = {"logprobs": part["logprobs"]} if self._kind == "message" else {}
            out.append(self._part_event(f"{stem}.done", text=part["text"], **more))
            out.append(self._part_event("response.content_part.done", part=copy.deepcopy(part)))
        out.append(self._event("response.output_item.done", output_index=self._index, item=copy.deepcopy(item)))
        self._kind = ""

    # -- the end ------------------------------------------------------------------------------------------------------

    def _finish(self, entry: Finished, out: list[dict[str, Any]]) -> None:
        cut = {"length": "max_output_tokens"}.get(entry.reason, "")
        if not self.response["output"]:
            self._open_text(_TEXT, out)
        if self._kind == "message" and entry.logprobs:
            self._item["content"][0]["logprobs"] += self._logprobs(entry)
        self._close("incomplete" if cut or entry.reason == "abort" else "completed", out)
        self.response["usage"] = usage_object(Usage.of([entry], 1))
        if cut:
            self.response["incomplete_details"] = {"reason": cut}
        status = "cancelled" if entry.reason == "abort" else "incomplete" if cut else "completed"
        out.append(self._end(status))

    def _end(self, status: str) -> dict[str, Any]:
        self.response["status"] = status
        self.response["completed_at"] = int(time.time()) if status == "completed" else None
        name = "incomplete" if status == "cancelled" else status  # the API knows no event of a cancelled response
        return self._event(f"response.{name}", response=self._snapshot())

    # -- events -------------------------------------------------------------------------------------------------------

    @property
    def _index(self) -> int:
        return len(self.response["output"]) - 1

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        number = self._number
        self._number += 1
        return {"type": kind, "sequence_number": number, **fields}

    def _item_event(self, kind: str, **fields: Any) -> dict[str, Any]:
        return self._event(kind, item_id=self._item["id"], output_index=self._index, **fields)

    def _part_event(self, kind: str, **fields: Any) -> dict[str, Any]:
        return self._item_event(kind, content_index=0, **fields)

    def _snapshot(self) -> dict[str, Any]:
        return {**self.response, "output": copy.deepcopy(self.response["output"])}

    def _logprobs(self, entry: Piece) -> list[dict[str, Any]]:
        if self._job.top_logprobs is None or not entry.logprobs:
            return []
        shaped: list[dict[str, Any]] = chat_logprobs(
            entry.logprobs, self._job.top_logprobs, self._job.service.detokenizers
        )["content"]
        return shaped


def usage_object(usage: Usage) -> dict[str, Any]:
    """The API's ``usage``."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
