"""Apertus: a JSON list between markers, in which each call is an object of one key, the function's name.

Source: the chat template of Apertus 2509.
"""

from __future__ import annotations

from sgl_core.api.parsers import CallSyntax

from ..machine import Machine, Malformed, Wait, json_reader


class Apertus(Machine):
    """``<|tools_prefix|>[{"name": {...}}, {"other": {...}}]<|tools_suffix|>``."""

    opens = ("<|tools_prefix|>",)
    call_syntax = CallSyntax(
        section_begin="<|tools_prefix|>[",
        begin='{"{name}": ',
        end="}",
        separator=", ",
        section_end="]<|tools_suffix|>",
    )

    def body(self, marker: str) -> Wait[None]:
        yield from self.source.spaces()
        yield from self.source.expect("[")
        yield from self.source.spaces()
        yield from self.each(self._call, (",",), ("]",))
        yield from self.skip("<|tools_suffix|>")

    def _call(self) -> Wait[None]:
        source = self.source
        yield from source.expect("{")
        yield from source.spaces()
        name = yield from json_reader.plain_string(source)
        if not name:
            raise Malformed("no function name")
        yield from source.spaces()
        yield from source.expect(":")
        yield from self.named_object(name)
        yield from source.spaces()
        yield from source.expect("}")
