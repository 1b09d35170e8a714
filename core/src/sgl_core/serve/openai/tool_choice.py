"""tool_choice: which tools the model may or must call, and the constraint that holds the answer to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sgl_core.api.grammar import GrammarError, tool_call_request
from sgl_core.api.sampling import GrammarRequest
from sgl_core.serve.core.errors import refuse, unsupported
from sgl_core.serve.core.service import Service


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """``mode`` is none, auto or required; ``tools`` are those that may be called, in the order given."""

    mode: str
    tools: tuple[Mapping[str, Any], ...] = ()


def tool_choice(choice: str | dict[str, Any] | None, tools: list[dict[str, Any]]) -> ToolChoice:
    """What a request wants. Takes none, auto, required, one function, and allowed_tools. Raises RequestError for anything else."""
    if choice is None:
        return ToolChoice("auto", tuple(tools)) if tools else ToolChoice("none")
    if isinstance(choice, str):
        if choice not in ("none", "auto", "required"):
            raise refuse("tool_choice", f"must be none, auto, required or a function, not {choice!r}")
        if choice == "required" and not tools:
            raise refuse("tool_choice", "is required, but there are no tools")
        return ToolChoice(choice, tuple(tools)) if tools and choice != "none" else ToolChoice("none")
    kind = choice.get("type", "function")
    if kind == "allowed_tools":
        inner = choice.get("allowed_tools", choice)
        allowed, mode = inner.get("tools"), inner.get("mode", "auto")
        if mode not in ("auto", "required") or not isinstance(allowed, list) or not allowed:
            raise refuse("tool_choice.allowed_tools", "must have mode auto or required, and tools")
        return ToolChoice(mode, tuple(_named(entry, tools) for entry in allowed))
    if kind != "function":
        raise refuse("tool_choice.type", f"must be function or allowed_tools, not {kind!r}")
    return ToolChoice("required", (_named(choice, tools),))


def call_constraint(choice: ToolChoice, service: Service, *, parallel: bool) -> GrammarRequest | None:
    """The constraint by which the answer is a call, or, for auto, by which calls of strict tools fit their schema; None: free text."""
    strict = choice.mode == "auto" and any(tool["function"].get("strict") is True for tool in choice.tools)
    if choice.mode != "required" and not strict:
        return None
    if service.tool_parser is None:
        if strict:
            return None
        raise unsupported(
            "tool_choice", "a call cannot be forced: no tool-call parser is configured (--tool-call-parser)"
        )
    syntax = service.tool_parser.call_syntax
    if syntax is None:
        raise unsupported("tool_choice", "a call cannot be forced: this model family's calls have no grammar")
    if "tool_calls" not in service.card.grammar_kinds:
        backend = service.card.grammar_backend
        raise unsupported(
            "tool_choice",
            f"a call cannot be forced: it needs a grammar, and grammar backend {backend!r} cannot give it",
        )
    try:
        return tool_call_request(syntax, choice.tools, parallel=parallel, required=choice.mode == "required")
    except GrammarError as error:
        raise unsupported("tool_choice", f"a call cannot be forced: {error}") from None


def _named(entry: Mapping[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """The declared tool that an entry of tool_choice names."""
    function = entry.get("function", entry)
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        raise refuse("tool_choice", 'must look like {"type": "function", "function": {"name": "..."}}')
    for tool in tools:
        if tool["function"]["name"] == name:
            return tool
    known = ", ".join(tool["function"]["name"] for tool in tools) or "none"
    raise refuse("tool_choice", f"names {name!r}, which is not among tools ({known})")
