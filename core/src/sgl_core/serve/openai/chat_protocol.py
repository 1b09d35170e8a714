"""The body of /v1/chat/completions: pydantic for its shape, and what its messages and tools must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sgl_core.serve.core.errors import RequestError, refuse, unsupported
from sgl_core.serve.core.validate import shown

from .fields import GenerationFields


class ChatRequest(GenerationFields):
    """OpenAI's fields and extensions. Messages and tools stay as they are: the model's template reads all their keys."""

    messages: list[dict[str, Any]]
    max_completion_tokens: Any = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | float | None = None
    modalities: list[str] | None = None
    documents: list[dict[str, Any]] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    separate_reasoning: bool | None = None
    stream_reasoning: bool | None = None


def check_messages(messages: list[dict[str, Any]]) -> None:
    """Raises RequestError naming the message that no template could take."""
    if not messages:
        raise refuse("messages", "is empty")
    for row, message in enumerate(messages):
        where = f"messages[{row}]"
        role = message.get("role")
        if not isinstance(role, str) or not role:
            raise _wrong(f"{where}.role", "must be a text such as user, assistant, system or tool")
        _check_content(message, role, where)
        _check_calls(message.get("tool_calls"), f"{where}.tool_calls")


def _check_content(message: Mapping[str, Any], role: str, where: str) -> None:
    content = message.get("content")
    if isinstance(content, str):
        return
    if content is None:
        if role in ("assistant", "tool", "function"):
            return
        raise _wrong(f"{where}.content", f"is required in a message of role {role!r}")
    if not isinstance(content, list) or not all(isinstance(part, dict | str) for part in content):
        raise _wrong(f"{where}.content", f"must be a text or a list of parts, not {shown(content)}")


def _check_calls(calls: Any, where: str) -> None:
    if calls is None:
        return
    if not isinstance(calls, list):
        raise _wrong(where, f"must be a list, not {shown(calls)}")
    for at, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise _wrong(f"{where}[{at}]", "must be an object with function.name")
        if not isinstance(function.get("arguments", ""), str | dict | None):
            raise _wrong(f"{where}[{at}].function.arguments", "must be JSON as text")


def _wrong(where: str, because: str) -> RequestError:
    return RequestError(f"{where}: {because}", param=where, code="invalid_value")


def check_tools(tools: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """The tools of a request. Raises RequestError naming the one that is not a function with a name."""
    for row, tool in enumerate(tools or []):
        where = f"tools[{row}]"
        if tool.get("type", "function") != "function":
            raise unsupported(f"{where}.type", f"only functions are served, not {shown(tool.get('type'))}")
        function = tool.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
            raise _wrong(f"{where}.function.name", "is required")
        if not isinstance(function.get("parameters", {}), dict | None):
            raise _wrong(f"{where}.function.parameters", "must be a JSON schema")
    return list(tools or [])
