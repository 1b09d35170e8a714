"""Hunyuan: HY 3's key and value tags, and the JSON list of Hunyuan A13B; HY 3's published tokenizer ends each tag's name in a suffix.

Sources: the chat templates of HY 3 and Hunyuan A13B.
"""

from __future__ import annotations

from sgl_core.api.parsers import CallSyntax

from ..machine import Machine, Malformed, Wait
from ..machine.parameters import Arguments, tagged_value

_SUFFIXES = ("", ":opensource")


class Hunyuan(Machine):
    """``<tool_calls><tool_call>name<tool_sep><arg_key>k</arg_key><arg_value>v</arg_value></tool_call></tool_calls>``."""

    opens = tuple(f"<tool_calls{suffix}>" for suffix in _SUFFIXES)
    call_syntax = CallSyntax(
        section_begin="<tool_calls>\n",
        begin="<tool_call>{name}<tool_sep>\n",
        end="</tool_call>\n",
        section_end="</tool_calls>",
        arguments="parameter_tags",
        parameter_begin="<arg_key>{key}</arg_key>\n<arg_value>",
        parameter_end="</arg_value>\n",
    )

    def body(self, marker: str) -> Wait[None]:
        suffix = marker.removeprefix("<tool_calls").removesuffix(">")
        yield from self.source.spaces()
        if (yield from self.source.at(("[", "{"))):
            yield from self.call_objects()
        else:
            yield from self.repeated(lambda: self._call(suffix), f"<tool_call{suffix}>")
        yield from self.skip(f"</tool_calls{suffix}>")

    def _call(self, suffix: str) -> Wait[None]:
        source = self.source
        key, end = f"<arg_key{suffix}>", f"</tool_call{suffix}>"
        yield from source.expect(f"<tool_call{suffix}>")
        name = (yield from self.until(f"<tool_sep{suffix}>")).strip()
        if not name or any(c.isspace() or c in "<>" for c in name):
            raise Malformed("no function name")
        arguments = Arguments(self.context, self.calls, name)
        yield from source.spaces()
        while (yield from source.expect(key, end)) == key:
            parameter = (yield from self.until(f"</arg_key{suffix}>")).strip()
            yield from source.spaces()
            yield from source.expect(f"<arg_value{suffix}>")
            yield from tagged_value(source, arguments, parameter, closer=f"</arg_value{suffix}>", followers=(key, end))
            yield from source.spaces()
        arguments.close()
