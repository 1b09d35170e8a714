"""The body of /v1/messages, and what it asks for that this server cannot give."""

from __future__ import annotations

from typing import Any

from sgl_core.serve.core.errors import RequestError, refuse, refuse_unserved, unsupported
from sgl_core.serve.core.validate import check_integer, shown
from sgl_core.serve.openai.fields import ApiModel


class CountTokensRequest(ApiModel):
    """The fields that make up a prompt."""

    messages: list[dict[str, Any]]
    model: str | None = None
    system: str | list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    output_format: dict[str, Any] | None = None


class MessagesRequest(CountTokensRequest):
    """Anthropic's fields, and the sampling extensions of the chat route."""

    max_tokens: Any
    stream: bool | None = None
    stop_sequences: Any = None
    temperature: Any = None
    top_k: Any = None
    top_p: Any = None
    metadata: dict[str, Any] | None = None
    service_tier: str | None = None
    # Extensions.
    min_p: Any = None
    repetition_penalty: Any = None
    frequency_penalty: Any = None
    presence_penalty: Any = None
    seed: Any = None
    ignore_eos: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    priority: int | None = None
    cache_salt: str | None = None
    stream_interval: int | None = None


SAMPLING = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "seed",
    "ignore_eos",
    "priority",
    "cache_salt",
    "stream_interval",
)
"""Fields that the chat route reads under the same name."""

NAMES = {"stop": "stop_sequences", "response_format": "output_config.format", "max_completion_tokens": "max_tokens"}
"""Chat fields to this API's."""

UNSERVED = {
    "container": "the server runs no code",
    "mcp_servers": "the server calls no tool servers",
    "context_management": "the server edits no contexts",
    "fallbacks": "one model is served",
}


def check_fields(body: CountTokensRequest) -> None:
    """Raises RequestError for the first field that cannot be served."""
    refuse_unserved(body.extras(), UNSERVED)
    if body.thinking is not None:
        _check_thinking(body)
    if body.output_config is not None and body.output_format is not None:
        raise refuse("output_format", "is the old name of output_config.format; give one of them")


def _check_thinking(body: CountTokensRequest) -> None:
    thinking = body.thinking or {}
    kind = thinking.get("type")
    if kind not in ("enabled", "disabled", "adaptive"):
        raise refuse("thinking.type", f"must be enabled, disabled or adaptive, not {shown(kind)}")
    if kind == "enabled":
        budget = check_integer(thinking.get("budget_tokens"), "thinking.budget_tokens", 1024)
        most = getattr(body, "max_tokens", None)
        if isinstance(most, int) and budget >= most:
            raise refuse("thinking.budget_tokens", f"must be less than max_tokens, which is {most}")


def response_format(body: CountTokensRequest) -> dict[str, Any] | None:
    """The output format as the chat route reads it. Raises RequestError."""
    given = (body.output_config or {}).get("format") or body.output_format
    if given is None:
        return None
    if not isinstance(given, dict) or given.get("type") != "json_schema" or not isinstance(given.get("schema"), dict):
        raise refuse("output_config.format", 'must look like {"type": "json_schema", "schema": {...}}')
    return {"type": "json_schema", "json_schema": {"name": "output", "schema": given["schema"]}}


def chat_tools(tools: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """The client's tools as the chat route reads them. Raises RequestError for tools that the server would have to run."""
    out = []
    for row, tool in enumerate(tools or []):
        where = f"tools[{row}]"
        if tool.get("type") not in (None, "custom"):
            raise unsupported(f"{where}.type", f"only the client's own tools are served, not {shown(tool['type'])}")
        if not isinstance(tool.get("name"), str) or not tool["name"]:
            raise RequestError(f"{where}.name: is required", param=f"{where}.name", code="missing_required_parameter")
        if not isinstance(tool.get("input_schema", {}), dict):
            raise refuse(f"{where}.input_schema", "must be a JSON schema")
        function: dict[str, Any] = {"name": tool["name"], "parameters": tool.get("input_schema") or {"type": "object"}}
        if tool.get("description"):
            function["description"] = tool["description"]
        if tool.get("strict") is True:
            function["strict"] = True
        out.append({"type": "function", "function": function})
    return out or None


def chat_tool_choice(choice: dict[str, Any] | None) -> str | dict[str, Any] | None:
    """``tool_choice`` as the chat route reads it. Raises RequestError."""
    if choice is None:
        return None
    kind = choice.get("type")
    if kind == "tool":
        if not isinstance(choice.get("name"), str):
            raise refuse("tool_choice.name", "is required with type tool")
        return {"type": "function", "function": {"name": choice["name"]}}
    words = {"auto": "auto", "any": "required", "none": "none"}
    if not isinstance(kind, str) or kind not in words:
        raise refuse("tool_choice.type", f"must be auto, any, tool or none, not {shown(kind)}")
    return words[kind]
