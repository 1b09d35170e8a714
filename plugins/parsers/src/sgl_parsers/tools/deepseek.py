"""DeepSeek V3, R1 and V3.1: call sections; V3.2: DSML invocations."""

from sgl_core.api.parsers import CallSyntax

from ..machine import Machine, Malformed, Wait
from .invoke_tags import InvokeTags

_SECTION, _SECTION_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_CALL, _CALL_END, _SEP = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"


class DeepSeekV3(Machine):
    """``begin function sep name ```json {...} ``` end`` (V3, R1) and ``begin name sep {...} end`` (V3.1), several in a section."""

    opens = (_SECTION, _CALL)
    call_syntax: CallSyntax | None = CallSyntax(
        section_begin=_SECTION,
        begin=_CALL + "function" + _SEP + "{name}\n```json\n",
        end="\n```" + _CALL_END,
        separator="\n",
        section_end=_SECTION_END,
    )

    def body(self, marker: str) -> Wait[None]:
        if marker == _CALL:
            self.source.pos -= len(marker)
        yield from self.repeated(self._call, _CALL)
        yield from self.skip(_SECTION_END)

    def _call(self) -> Wait[None]:
        yield from self.source.expect(_CALL)
        name = (yield from self.until(_SEP)).strip()
        if name == "function":
            name = (yield from self.until("\n", "```json", "{")).strip()
            if self.source.text[self.source.pos - 1] == "{":
                self.source.pos -= 1
        if "\n" in name:
            raise Malformed("no function name")
        yield from self.skip("```json", "```")
        yield from self.named_object(name)
        yield from self.skip("```")
        yield from self.skip(_CALL_END)


class DeepSeekV31(DeepSeekV3):
    """The shorter form of V3.1 as the one to hold the model to; both forms are read."""

    call_syntax = CallSyntax(
        section_begin=_SECTION, begin=_CALL + "{name}" + _SEP, end=_CALL_END, section_end=_SECTION_END
    )


class DeepSeekV32(InvokeTags):
    """DSML: ``<｜DSML｜invoke name="f"><｜DSML｜parameter name="k" string="true">v</｜DSML｜parameter></｜DSML｜invoke>``."""

    prefix = "｜DSML｜"
    section = "function_calls"
    sections = ("function_calls", "tool_calls")
    call_syntax = CallSyntax(
        section_begin="<｜DSML｜function_calls>\n",
        begin='<｜DSML｜invoke name="{name}">\n',
        end="</｜DSML｜invoke>\n",
        arguments="parameter_tags",
        parameter_begin='<｜DSML｜parameter name="{key}" string="{string}">',
        parameter_end="</｜DSML｜parameter>\n",
        section_end="</｜DSML｜function_calls>",
    )
