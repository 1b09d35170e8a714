"""Models that answer in the plain-text form ``[Calling tool: name({...})]``."""

from sgl_core.api.parsers import CallSyntax

from ..machine import Machine, Wait, json_reader


class Bracket(Machine):
    """``[Calling tool: name({...})]``."""

    opens = ("[Calling tool:",)
    call_syntax = CallSyntax(begin="[Calling tool: {name}(", end=")]", separator="\n")

    def body(self, marker: str) -> Wait[None]:
        yield from self.attempt_or_fail(self._call)

    def _call(self) -> Wait[None]:
        self.calls.begin((yield from self.until("(")).strip())
        yield from self.source.spaces()
        yield from json_reader.members(self.source, self.calls.arguments)
        yield from self.source.spaces()
        yield from self.source.expect(")]")
        self.calls.end()
