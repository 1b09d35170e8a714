"""Families that write ``<invoke name="f"><parameter name="k">v</parameter></invoke>`` under a prefix of their own."""

from __future__ import annotations

import re

from sgl_core.api.parsers import CallSyntax, ParseContext

from ..machine import Machine, Malformed, Wait
from ..machine.parameters import Arguments, tagged_value
from ..machine.schema_types import ANY

_ATTRIBUTE = re.compile(r'\s*([\w-]+)\s*=\s*"([^"]*)"')


class InvokeTags(Machine):
    """``prefix`` stands before every tag name; ``sections`` are the names of the tags around all calls; ``names`` are those of a call's
    and a parameter's tag."""

    prefix = ""
    names = ("invoke", "parameter")
    sections: tuple[str, ...] = ()
    call_syntax: CallSyntax | None = None

    def __init__(self, context: ParseContext) -> None:
        self.opens = (*(f"<{s}>" for s in self.section_tags()), self._invoke)
        super().__init__(context)

    def section_tags(self) -> tuple[str, ...]:
        """The full names of the section tags."""
        return tuple(self.prefix + s for s in self.sections)

    @property
    def _invoke(self) -> str:
        return f"<{self.prefix}{self.names[0]} "

    @property
    def _parameter(self) -> str:
        return f"<{self.prefix}{self.names[1]} "

    def body(self, marker: str) -> Wait[None]:
        if marker == self._invoke:
            self.source.pos -= len(marker)
        yield from self.repeated(self._call, self._invoke)
        if self.sections:
            yield from self.skip(*(f"</{s}>" for s in self.section_tags()))

    def _call(self) -> Wait[None]:
        source, prefix = self.source, self.prefix
        end = f"</{prefix}{self.names[0]}>"
        yield from source.expect(self._invoke)
        arguments = Arguments(self.context, self.calls, (yield from self._attributes()).get("name", ""))
        while True:
            yield from source.spaces()
            if (yield from source.expect(self._parameter, end)) == end:
                break
            attributes = yield from self._attributes()
            told = {"true": frozenset({"string"}), "false": ANY - {"string"}}.get(attributes.get("string", ""))
            yield from tagged_value(
                source,
                arguments,
                attributes["name"],
                closer=f"</{prefix}{self.names[1]}>",
                followers=(self._parameter, end),
                types=told,
            )
        arguments.close()

    def _attributes(self) -> Wait[dict[str, str]]:
        found = dict(_ATTRIBUTE.findall((yield from self.until(">"))))
        if not found.get("name"):
            raise Malformed("a tag without a name")
        return found


class MiniMaxM2(InvokeTags):
    """MiniMax M2: ``<minimax:tool_call>`` around plain invoke tags."""

    sections = ("minimax:tool_call",)
    call_syntax = CallSyntax(
        section_begin="<minimax:tool_call>\n",
        begin='<invoke name="{name}">\n',
        end="</invoke>\n",
        arguments="parameter_tags",
        parameter_begin='<parameter name="{key}">',
        parameter_end="</parameter>\n",
        section_end="</minimax:tool_call>",
    )


class Dots(InvokeTags):
    """dots: invoke tags, or one JSON object, in a tag of its own."""

    sections = ("dots_function_call",)
    call_syntax = CallSyntax(
        section_begin="<dots_function_call>\n",
        begin='<invoke name="{name}">\n',
        end="</invoke>\n",
        arguments="parameter_tags",
        parameter_begin='<parameter name="{key}">',
        parameter_end="</parameter>\n",
        section_end="</dots_function_call>",
    )

    def body(self, marker: str) -> Wait[None]:
        yield from self.source.spaces()
        if (yield from self.source.at(("{",))):
            yield from self.call_objects()
            yield from self.skip("</dots_function_call>")
        else:
            yield from super().body(marker)


class MiniCpm5(InvokeTags):
    """MiniCPM 5: ``<function name="f"><param name="k">v</param></function>``."""

    names = ("function", "param")
    call_syntax = CallSyntax(
        begin='<function name="{name}">',
        end="</function>",
        arguments="parameter_tags",
        parameter_begin='<param name="{key}">',
        parameter_end="</param>",
        separator="\n",
    )


class Step3(InvokeTags):
    """Step3: steptml invoke tags inside call markers."""

    prefix = "steptml:"
    call_syntax = CallSyntax(
        section_begin="<｜tool_calls_begin｜>",
        begin='<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">',
        end="</steptml:invoke><｜tool_call_end｜>",
        arguments="parameter_tags",
        parameter_begin='<steptml:parameter name="{key}">',
        parameter_end="</steptml:parameter>",
        section_end="<｜tool_calls_end｜>",
    )
    _BEGIN, _END = "<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"
    _CALL, _CALL_END = "<｜tool_call_begin｜>", "<｜tool_call_end｜>"

    def __init__(self, context: ParseContext) -> None:
        super().__init__(context)
        self.opens = (self._BEGIN, self._CALL, *self.opens)

    def body(self, marker: str) -> Wait[None]:
        if marker != self._BEGIN:
            self.source.pos -= len(marker)
        yield from self.repeated(self._call, self._CALL, self._invoke)
        yield from self.skip(self._END)

    def _call(self) -> Wait[None]:
        if (yield from self.source.accept(self._CALL)):
            yield from self.until("<｜tool_sep｜>")
            yield from self.source.spaces()
        yield from super()._call()
        yield from self.skip(self._CALL_END)
