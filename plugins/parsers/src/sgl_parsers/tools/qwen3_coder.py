"""Qwen3-Coder and MiMo V2: function and parameter tags, with or without ``<tool_call>`` around them."""

from sgl_core.api.parsers import CallSyntax

from .tool_call_tag import CLOSE, OPEN, ToolCallTag


class Qwen3Coder(ToolCallTag):
    """``<tool_call><function=name><parameter=key>value</parameter></function></tool_call>``."""

    opens = (OPEN, "<function=")
    call_syntax = CallSyntax(
        begin=OPEN + "\n<function={name}>\n",
        end="</function>\n" + CLOSE,
        separator="\n",
        arguments="parameter_tags",
        parameter_begin="<parameter={key}>\n",
        parameter_end="\n</parameter>\n",
    )
