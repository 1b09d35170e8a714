"""/v1/messages, the way in: its body becomes a chat request of the core."""

from __future__ import annotations

import uuid
from typing import Any

from sgl_core.serve.core.service import Service
from sgl_core.serve.http.body import parse_model
from sgl_core.serve.openai import chat
from sgl_core.serve.openai.chat import Chat
from sgl_core.serve.openai.chat_protocol import ChatRequest, check_messages, check_tools
from sgl_core.serve.openai.tool_choice import tool_choice
from sgl_core.serve.renaming import renamed
from sgl_core.serve.thinking import thinking_variables

from .blocks import messages_of
from .protocol import (
    NAMES,
    SAMPLING,
    CountTokensRequest,
    MessagesRequest,
    chat_tool_choice,
    chat_tools,
    check_fields,
    response_format,
)


async def translate(body: MessagesRequest, service: Service) -> Chat:
    """Check everything, render and tokenize. Raises RequestError under this API's field names."""
    fields = {name: value for name in SAMPLING if (value := getattr(body, name)) is not None}
    fields |= _prompt(body, service)
    fields |= {
        "model": body.model,
        "max_tokens": body.max_tokens,
        "stop": body.stop_sequences,
        "stream": bool(body.stream),
        "response_format": response_format(body),
        "rid": f"msg_{uuid.uuid4().hex}",
    }
    if body.tool_choice is not None and body.tool_choice.get("disable_parallel_tool_use") is True:
        fields["parallel_tool_calls"] = False
    with renamed(NAMES):
        return await chat.translate(parse_model(fields, ChatRequest), service)


async def count(body: CountTokensRequest, service: Service) -> int:
    """The tokens of the prompt, as :func:`translate` would make it."""
    with renamed(NAMES):
        request = parse_model(_prompt(body, service), ChatRequest)
        check_messages(request.messages)
        tools = check_tools(request.tools)
        choice = tool_choice(request.tool_choice, tools)
        prompt, _ = await chat.render(request, service, tools if choice.mode != "none" else [])
    return len(prompt.ids)


def _prompt(body: CountTokensRequest, service: Service) -> dict[str, Any]:
    """The chat fields from which the prompt is made."""
    check_fields(body)
    variables = dict(getattr(body, "chat_template_kwargs", None) or {})
    thinking = (body.thinking or {}).get("type") in ("enabled", "adaptive")
    variables = thinking_variables(service, thinking) | variables  # off unless it is asked for
    messages = messages_of(body.messages, body.system)
    return {
        "messages": messages,
        "tools": chat_tools(body.tools),
        "tool_choice": chat_tool_choice(body.tool_choice),
        "chat_template_kwargs": variables,
        "reasoning_effort": (body.output_config or {}).get("effort"),
        # A last message of the assistant is the beginning of the answer.
        "continue_final_message": messages[-1]["role"] == "assistant" and not messages[-1].get("tool_calls"),
    }
