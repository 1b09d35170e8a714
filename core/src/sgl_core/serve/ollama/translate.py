"""Ollama's chat and generate, the way in: their bodies become requests of the core."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sgl_core.serve.core.errors import RequestError, refuse, unsupported
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.validate import shown
from sgl_core.serve.http.body import parse_model
from sgl_core.serve.openai import chat, completions
from sgl_core.serve.openai.chat import Chat
from sgl_core.serve.openai.chat_protocol import ChatRequest
from sgl_core.serve.openai.completion_protocol import CompletionRequest
from sgl_core.serve.openai.completions import Completion
from sgl_core.serve.renaming import renamed
from sgl_core.serve.thinking import thinking_variables

from .protocol import NAMES, Answering, ChatBody, GenerateBody, response_format, sampling

EFFORTS = ("low", "medium", "high", "max")


async def chat_job(body: ChatBody, service: Service) -> Chat:
    """Check everything, render and tokenize. Raises RequestError under this API's field names."""
    messages = [_message(message, row) for row, message in enumerate(body.messages or [])]
    return await _chat(body, service, messages, "messages", body.tools)


async def generate_job(body: GenerateBody, service: Service) -> Chat | Completion:
    """The prompt in the model's chat template, or as it stands with ``raw`` or where the model has no template."""
    for name, why in (
        ("images", "this model reads text only"),
        ("suffix", "text is only written after a prompt"),
        ("template", "the operator sets the template (--chat-template)"),
        ("context", "send the conversation to /api/chat"),
    ):
        if getattr(body, name):
            raise unsupported(name, why)
    prompt = body.prompt or ""
    if not prompt.strip():
        raise refuse("prompt", "the prompt is only white space")
    if not body.raw and service.template is not None:
        messages = [{"role": "user", "content": prompt}]
        if body.system:
            messages.insert(0, {"role": "system", "content": body.system})
        return await _chat(body, service, messages, "prompt", None)
    fields = {**_shared(body), "prompt": prompt}
    fields.setdefault("max_tokens", None)
    if body.logprobs:
        fields["logprobs"] = body.top_logprobs or 0
    with renamed({**NAMES, "messages": "prompt"}):
        request = parse_model(fields, CompletionRequest)
        if request.max_tokens is None:
            request.max_tokens = await _room(service, prompt)
        return await completions.translate(request, service)


async def _room(service: Service, prompt: str) -> int:
    """All that the context has left: Ollama's default, where a completion's is 16 tokens."""
    used = len((await service.encoder.prompt(prompt, "prompt")).ids)
    context = service.card.context_length
    return max(context - used, 1) if context else 128


async def _chat(
    body: Answering, service: Service, messages: list[dict[str, Any]], source: str, tools: list[dict[str, Any]] | None
) -> Chat:
    fields = {**_shared(body), "messages": messages, "tools": tools or None}
    if body.logprobs:
        fields |= {"logprobs": True, "top_logprobs": body.top_logprobs or 0}
    if body.think is not None:
        fields |= _thinking(body.think, service)
    with renamed({**NAMES, "messages": source}):
        return await chat.translate(parse_model(fields, ChatRequest), service)


def _shared(body: Answering) -> dict[str, Any]:
    return {
        **sampling(body.options),
        "stream": body.stream is not False,
        "response_format": response_format(body.format),
    }


def _thinking(think: bool | str, service: Service) -> dict[str, Any]:
    if isinstance(think, str):
        if think not in EFFORTS:
            raise refuse("think", f"must be true, false, {', '.join(EFFORTS)}, not {shown(think)}")
        return {"reasoning_effort": think}
    return {"chat_template_kwargs": thinking_variables(service, think)}


def _message(message: Mapping[str, Any], row: int) -> dict[str, Any]:
    """A message as the chat route reads it: thinking under its other name, calls with ids and arguments as text."""
    where = f"messages[{row}]"
    out = {key: value for key, value in message.items() if value is not None and key not in ("images", "thinking")}
    if message.get("images"):
        raise RequestError(f"{where}.images: this model reads text only", param="messages", code="unsupported_content")
    content = message.get("content")
    if content is not None and not isinstance(content, str):
        raise RequestError(f"{where}.content: must be a text", param="messages", code="invalid_value")
    out.setdefault("content", "")
    if message.get("thinking"):
        out["reasoning_content"] = message["thinking"]
    if message.get("tool_name"):
        out.setdefault("name", message["tool_name"])
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        out["tool_calls"] = [_call(call, row, at) for at, call in enumerate(calls)]
    return out


def _call(call: Any, row: int, at: int) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return call
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    kept = {**function, "arguments": text}
    return {**call, "id": call.get("id") or f"call_{row}_{at}", "type": "function", "function": kept}
