"""GLM-4.5 to 4.7: the name and key/value tags inside ``<tool_call>``."""

from sgl_core.api.parsers import CallSyntax

from .tool_call_tag import CLOSE, OPEN, ToolCallTag


class Glm(ToolCallTag):
    """``<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>``."""

    call_syntax = CallSyntax(
        begin=OPEN + "{name}\n",
        end=CLOSE,
        separator="\n",
        arguments="parameter_tags",
        parameter_begin="<arg_key>{key}</arg_key>\n<arg_value>",
        parameter_end="</arg_value>\n",
    )
