"""Hermes 2 Pro, Qwen2.5, Qwen3 and Granite 4: JSON call objects inside ``<tool_call>``."""

from sgl_core.api.parsers import CallSyntax

from .tool_call_tag import CLOSE, OPEN, ToolCallTag


class Hermes(ToolCallTag):
    """``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``."""

    call_syntax = CallSyntax(begin=OPEN + '\n{"name": "{name}", "arguments": ', end="}\n" + CLOSE, separator="\n")
