"""Llama 3.1 to 3.3: JSON call objects at the start of the answer or behind ``<|python_tag|>``, several divided by semicolons."""

from sgl_core.api.parsers import CallSyntax

from ..machine import Machine, Wait
from ..machine.call_object import call_object

_TAG = "<|python_tag|>"
_FUNCTION = "<function="


class Llama3(Machine):
    """``{"name": ..., "parameters": {...}}``; also the custom form ``<function=name>{...}</function>``."""

    opens = (_TAG, _FUNCTION)
    call_syntax = CallSyntax(begin='{"name": "{name}", "parameters": ', end="}", separator="; ")

    def lead(self) -> Wait[None]:
        if (yield from self.source.after_spaces(("{", "["))) in ("{", "["):
            yield from self.attempt(self._objects)

    def body(self, marker: str) -> Wait[None]:
        if marker == _FUNCTION:
            yield from self.attempt_or_fail(self._function)
        else:
            yield from self._objects()

    def _objects(self) -> Wait[None]:
        source = self.source
        yield from self.call_objects()
        while (yield from self.skip(";", ",", _TAG)):
            yield from source.spaces()
            yield from self.attempt_or_fail(lambda: call_object(source, self.calls))

    def _function(self) -> Wait[None]:
        name = yield from self.until(">")
        yield from self.named_object(name.strip())
        yield from self.skip("</function>")
