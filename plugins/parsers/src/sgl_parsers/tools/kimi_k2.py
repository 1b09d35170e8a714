"""Kimi K2: ids such as ``functions.get_weather:0`` carry the name; arguments are JSON."""

from __future__ import annotations

import re

from sgl_core.api.parsers import CallSyntax

from ..machine import Machine, Malformed, Wait

_SECTION, _SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
_CALL, _ARGUMENT, _CALL_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
_ID = re.compile(r"(?:functions[._])?(?P<name>.+?)(?:[:_](?P<index>\d+))?")


class KimiK2(Machine):
    """``<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{...}<|tool_call_end|>``, several in a section."""

    opens = (_SECTION, "<|tool_call_section_begin|>", _CALL)
    call_syntax = CallSyntax(
        section_begin=_SECTION,
        begin=_CALL + "functions.{name}:{index}" + _ARGUMENT,
        end=_CALL_END,
        section_end=_SECTION_END,
    )

    def body(self, marker: str) -> Wait[None]:
        if marker == _CALL:
            self.source.pos -= len(marker)
        yield from self.repeated(self._call, _CALL)
        yield from self.skip(_SECTION_END, "<|tool_call_section_end|>")

    def _call(self) -> Wait[None]:
        yield from self.source.expect(_CALL)
        call_id = (yield from self.until(_ARGUMENT)).strip()
        yield from self.named_object(self._name(call_id), call_id)
        yield from self.skip(_CALL_END)

    def _name(self, call_id: str) -> str:
        """The function's name in an id; where the id alone is ambiguous the declared tools decide."""
        declared = {t.get("function", t).get("name") for t in self.context.tools}
        bare = call_id.removeprefix("functions.").removeprefix("functions_")
        if bare in declared:
            return bare
        found = _ID.fullmatch(call_id)
        if not found:
            raise Malformed("no function name in the id")
        return found["name"]
