"""Families that write JSON call objects, or a list of them, behind a marker of their own; each is three strings of data.

Sources: the chat templates of Phi-4-mini, Granite 3, InternLM 2.5, Command R, xLAM and Mistral's first tool format.
"""

from sgl_core.api.parsers import CallSyntax

from ..machine import Machine, Wait


class MarkedJson(Machine):
    """Call objects between an opening marker and an optional closing one."""

    closes: tuple[str, ...] = ()
    call_syntax: CallSyntax | None = None

    def body(self, marker: str) -> Wait[None]:
        yield from self.call_objects()
        if self.closes:
            yield from self.skip(*self.closes)


class Phi4(MarkedJson):
    """Phi-4-mini: ``<|tool_call|>[...]<|/tool_call|>``, or ``functools[...]``."""

    opens = ("<|tool_call|>", "functools")
    closes = ("<|/tool_call|>",)
    call_syntax = CallSyntax(
        section_begin="<|tool_call|>[",
        begin='{"name": "{name}", "arguments": ',
        end="}",
        separator=", ",
        section_end="]<|/tool_call|>",
    )


class Granite(MarkedJson):
    """Granite 3: ``<|tool_call|>[...]``, or ``<tool_call>[...]``."""

    opens = ("<|tool_call|>", "<tool_call>")
    closes = ("</tool_call>", "<|/tool_call|>")
    call_syntax = CallSyntax(
        section_begin="<|tool_call|>[",
        begin='{"name": "{name}", "arguments": ',
        end="}",
        separator=", ",
        section_end="]",
    )


class InternLm(MarkedJson):
    """InternLM 2.5 and 3: ``<|action_start|><|plugin|>{...}<|action_end|>``."""

    opens = ("<|action_start|><|plugin|>", "<|action_start|> <|plugin|>")
    closes = ("<|action_end|>",)
    call_syntax = CallSyntax(
        begin='<|action_start|><|plugin|>\n{"name": "{name}", "parameters": ', end="}<|action_end|>", separator="\n"
    )


class CommandR(MarkedJson):
    """Command R7B and A: ``<|START_ACTION|>[...]<|END_ACTION|>``; the response markers around content are dropped."""

    opens = ("<|START_ACTION|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>")
    closes = ("<|END_ACTION|>",)
    call_syntax = CallSyntax(
        section_begin="<|START_ACTION|>[",
        begin='{"tool_call_id": "{index}", "tool_name": "{name}", "parameters": ',
        end="}",
        separator=", ",
        section_end="]<|END_ACTION|>",
    )

    def body(self, marker: str) -> Wait[None]:
        if marker == "<|START_ACTION|>":
            yield from super().body(marker)


class GigaChat3(MarkedJson):
    """GigaChat 3: one call object behind a role or a marker."""

    opens = ("function call<|role_sep|>\n", "<|function_call|>")
    closes = ("<|message_sep|>",)
    call_syntax = CallSyntax(begin='<|function_call|>{"name": "{name}", "arguments": ', end="}")


class Xlam(MarkedJson):
    """xLAM 2: a JSON list as the whole answer, in a code fence or behind a marker."""

    opens = ("[TOOL_CALLS]", "<tool_call>", "```json\n")
    closes = ("</tool_call>", "```")
    call_syntax = CallSyntax(
        section_begin="[", begin='{"name": "{name}", "arguments": ', end="}", separator=", ", section_end="]"
    )

    def lead(self) -> Wait[None]:
        if (yield from self.source.after_spaces(("[{", "[ {", "[\n", "{"))) not in ("", "$"):
            yield from self.attempt(self.call_objects)
