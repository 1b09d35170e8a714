"""Llama 4, Olmo 3 and Gemma 3: calls as Python expressions."""

from __future__ import annotations

from sgl_core.api.parsers import CallSyntax

from ..machine import Machine, Malformed, Wait
from ..machine.python_call import python_call


class Pythonic(Machine):
    """``[f(a=1), g(b="x")]`` as the whole answer, or between Llama 4's python markers; JSON call objects are read as well."""

    opens: tuple[str, ...] = ("<|python_start|>",)
    closes: tuple[str, ...] = ("<|python_end|>",)
    call_syntax: CallSyntax | None = None

    def lead(self) -> Wait[None]:
        if (yield from self.source.after_spaces(("[", "{"))) in ("[", "{"):
            yield from self.attempt(self._calls)

    def body(self, marker: str) -> Wait[None]:
        yield from self._calls()
        yield from self.skip(*self.closes)

    def _calls(self) -> Wait[None]:
        source = self.source
        yield from source.spaces()
        if (yield from source.at(("{",))) or (yield from source.at(("[{", "[ {"))):
            yield from self.call_objects()
            return
        bracket = yield from source.accept("[")
        yield from source.spaces()
        if not bracket:
            yield from self.lines()
        elif not (yield from source.accept("]")):
            yield from self.each(self._one, (",",), ("]",))
        else:
            raise Malformed("no call in the list")

    def lines(self) -> Wait[None]:
        """Calls without brackets, one behind the other."""
        yield from self.attempt_or_fail(self._one)
        while not (yield from self.source.after_spaces(self.closes)):
            yield from self.source.spaces()
            yield from self.source.accept(",", ";")
            yield from self.source.spaces()
            yield from self.attempt_or_fail(self._one)

    def _one(self) -> Wait[None]:
        return (yield from python_call(self.source, self.calls, self.context))


class Olmo3(Pythonic):
    """``<function_calls>`` with one call a line."""

    opens = ("<function_calls>",)
    closes = ("</function_calls>",)


class Lfm2(Pythonic):
    """LFM2: a list of calls between tool-call markers."""

    opens = ("<|tool_call_start|>",)
    closes = ("<|tool_call_end|>",)

    def lead(self) -> Wait[None]:
        return
        yield


class Gemma3(Pythonic):
    """A ``tool_code`` fence with calls in it."""

    opens = ("```tool_code",)
    closes = ("```",)
