"""Families that write calls inside ``<tool_call>``: the tag is shared, the body tells whether it is JSON, function tags or key/value tags.

Sources: the chat templates of Hermes 2 Pro and Qwen2.5 (JSON), Qwen3-Coder and MiMo (function tags), GLM-4.5 (key/value tags).
"""

from __future__ import annotations

import re

from sgl_core.api.parsers import CallSyntax

from ..machine import Machine, Malformed, Wait
from ..machine.parameters import Arguments, tagged_value

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION, _FUNCTION_END = "<function=", "</function>"
_PARAMETER, _PARAMETER_END = "<parameter=", "</parameter>"
_KEY, _KEY_END = "<arg_key>", "</arg_key>"
_VALUE, _VALUE_END = "<arg_value>", "</arg_value>"
_BARE_NAME = re.compile(r"[\w.:/-]+")


class ToolCallTag(Machine):
    """Reads every body that is written inside the tag, whichever family was chosen, so a mismatch loses nothing."""

    opens: tuple[str, ...] = (OPEN,)
    call_syntax: CallSyntax | None = None

    def body(self, marker: str) -> Wait[None]:
        source = self.source
        if marker == _FUNCTION:
            source.pos -= len(marker)
            yield from self.attempt_or_fail(self._function)
            yield from self.skip(CLOSE)
            return
        while True:
            yield from source.spaces()
            if (yield from source.at(("{", "["))):
                yield from self.call_objects()
            elif (yield from source.at((_FUNCTION,))):
                yield from self.attempt_or_fail(self._function)
            else:
                yield from self.attempt_or_fail(self._pairs)
                return
            if (yield from self.skip(CLOSE)) or (yield from source.after_spaces(("{", _FUNCTION))) in ("", "$"):
                return

    def _function(self) -> Wait[None]:
        """``<function=name> <parameter=key>value</parameter> ... </function>``."""
        source = self.source
        yield from source.expect(_FUNCTION)
        arguments = Arguments(self.context, self.calls, (yield from self._until_gt()))
        while True:
            yield from source.spaces()
            if (yield from source.accept(_FUNCTION_END)) or (yield from source.at((CLOSE,))):
                break
            yield from source.expect(_PARAMETER)
            key = yield from self._until_gt()
            yield from tagged_value(
                source,
                arguments,
                key,
                closer=_PARAMETER_END,
                followers=(_PARAMETER, _FUNCTION_END, CLOSE),
                cut_short={"\n" + _PARAMETER: (), _FUNCTION_END: (CLOSE, _FUNCTION)},
                trim=True,
            )
        arguments.close()

    def _until_gt(self) -> Wait[str]:
        name = (yield from self.until(">")).strip().strip("\"'")
        if not name or "\n" in name or "<" in name:
            raise Malformed("no name in the tag")
        return name

    def _pairs(self) -> Wait[None]:
        """``name <arg_key>key</arg_key> <arg_value>value</arg_value> ... </tool_call>``."""
        source = self.source
        pieces: list[str] = []
        marker = yield from source.until((_KEY, CLOSE), pieces.append)
        name = "".join(pieces).strip()
        if not marker or not _BARE_NAME.fullmatch(name):
            raise Malformed("no function name")
        arguments = Arguments(self.context, self.calls, name)
        while marker == _KEY:
            parameter = (yield from self.until(_KEY_END)).strip()
            yield from source.spaces()
            yield from source.expect(_VALUE)
            yield from tagged_value(source, arguments, parameter, closer=_VALUE_END, followers=(_KEY, CLOSE))
            yield from source.spaces()
            marker = yield from source.accept(_KEY, CLOSE)
        arguments.close()
