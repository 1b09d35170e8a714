"""/v1/responses, the way in: its body becomes a chat request of the core, and the first state of the response object."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any

from sgl_core.serve.core.errors import RequestError, refuse, unsupported
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.validate import shown
from sgl_core.serve.http.body import parse_model
from sgl_core.serve.openai import chat
from sgl_core.serve.openai.chat import Chat
from sgl_core.serve.openai.chat_protocol import ChatRequest
from sgl_core.serve.renaming import renamed

from .items import input_items, messages_of
from .protocol import NAMES, SAMPLING, ResponseRequest, check_fields
from .store import Record, ResponseStore

LOGPROBS = "message.output_text.logprobs"


@dataclass(slots=True, kw_only=True)
class Job:
    """One call, translated."""

    chat: Chat
    record: Record
    stored: bool


async def translate(body: ResponseRequest, service: Service, store: ResponseStore) -> Job:
    """Check everything, render and tokenize. Raises RequestError under this API's field names."""
    check_fields(body)
    items = input_items(body.input)
    context: list[dict[str, Any]] = []
    if body.previous_response_id:
        before = store.get(body.previous_response_id, "previous_response_id")
        if before.running:
            raise refuse("previous_response_id", f"response {body.previous_response_id!r} has not ended yet")
        context = [*before.context, *before.response["output"]]
    context = [*context, *items]
    fields = {name: value for name in SAMPLING if (value := getattr(body, name)) is not None}
    fields |= {
        "model": body.model,
        "messages": messages_of(context, body.instructions),
        "max_completion_tokens": body.max_output_tokens,
        "stream": bool(body.stream),
        "tools": _tools(body.tools),
        "tool_choice": _tool_choice(body.tool_choice),
        "parallel_tool_calls": body.parallel_tool_calls,
        "response_format": _format(body),
        "reasoning_effort": None if body.reasoning is None else body.reasoning.effort,
        "logprobs": LOGPROBS in (body.include or ()) or None,
        "rid": f"resp_{uuid.uuid4().hex}",
    }
    if fields["logprobs"]:
        fields["top_logprobs"] = body.top_logprobs or 0
    elif body.top_logprobs:
        raise refuse("top_logprobs", f"needs include: [{LOGPROBS!r}]")
    with renamed(NAMES):
        job = await chat.translate(parse_model(fields, ChatRequest), service)
    record = Record(response=_response(body, job), items=items, context=context, background=bool(body.background))
    return Job(chat=job, record=record, stored=body.store is not False)


def _tools(tools: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Function tools in the chat route's shape. Raises RequestError for tools that the server would have to run."""
    out = []
    for row, tool in enumerate(tools or []):
        where = f"tools[{row}]"
        if tool.get("type") != "function":
            raise unsupported(f"{where}.type", f"only functions are served, not {shown(tool.get('type'))}")
        if not isinstance(tool.get("name"), str) or not tool["name"]:
            raise RequestError(f"{where}.name: is required", param=f"{where}.name", code="missing_required_parameter")
        function = {
            key: tool[key] for key in ("name", "description", "parameters", "strict") if tool.get(key) is not None
        }
        out.append({"type": "function", "function": function})
    return out or None


def _tool_choice(choice: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    if not isinstance(choice, dict):
        return choice
    if choice.get("type") != "function" or not isinstance(choice.get("name"), str):
        raise refuse("tool_choice", 'must be none, auto, required or {"type": "function", "name": "..."}')
    return {"type": "function", "function": {"name": choice["name"]}}


def _format(body: ResponseRequest) -> dict[str, Any] | None:
    given = None if body.text is None else body.text.format
    if given is None or given.get("type") != "json_schema":
        return given
    return {"type": "json_schema", "json_schema": {key: given[key] for key in given if key != "type"}}


def _response(body: ResponseRequest, job: Chat) -> dict[str, Any]:
    """The response object before anything came: what was asked for, with defaults filled in."""
    sampling = job.request.sampling
    given = None if body.text is None else body.text.format
    return {
        "id": job.request.rid,
        "object": "response",
        "created_at": int(time.time()),
        "completed_at": None,
        "status": "queued" if body.background else "in_progress",
        "background": bool(body.background),
        "error": None,
        "incomplete_details": None,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "max_tool_calls": body.max_tool_calls,
        "metadata": body.metadata or {},
        "model": job.service.card.name,
        "output": [],
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": body.previous_response_id,
        "prompt_cache_key": body.prompt_cache_key,
        "reasoning": {"effort": None if body.reasoning is None else body.reasoning.effort, "summary": None},
        "safety_identifier": body.safety_identifier,
        "service_tier": "default",
        "store": body.store is not False,
        "temperature": sampling.temperature,
        "text": {"format": given or {"type": "text"}, "verbosity": None if body.text is None else body.text.verbosity},
        "tool_choice": body.tool_choice or "auto",
        "tools": body.tools or [],
        "top_logprobs": body.top_logprobs or 0,
        "top_p": sampling.top_p,
        "truncation": "disabled",
        "usage": None,
        "user": body.user,
    }
