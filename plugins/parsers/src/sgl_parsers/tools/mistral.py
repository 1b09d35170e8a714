"""Mistral: ``[TOOL_CALLS]`` with a JSON list (tokenizers v1 to v10), or with a name and its arguments (v11 and later)."""

from sgl_core.api.parsers import CallSyntax

from ..machine import Machine, Wait

_OPEN, _ARGS, _ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"


class Mistral(Machine):
    """``[TOOL_CALLS][{...}]`` or ``[TOOL_CALLS]name[ARGS]{...}``, the latter once for every call."""

    opens = (_OPEN,)
    call_syntax = CallSyntax(begin=_OPEN + "{name}" + _ARGS, end="")

    def body(self, marker: str) -> Wait[None]:
        yield from self.source.spaces()
        if (yield from self.source.at(("[{", "[ ", "[\n", "[]", "{"))):
            yield from self.call_objects()
        else:
            yield from self.attempt_or_fail(self._named)

    def _named(self) -> Wait[None]:
        source = self.source
        start = source.pos
        found = yield from source.until((_ARGS, _ID, "{"), lambda _: None)
        name = source.text[start : source.pos - len(found)].strip()
        call_id = None
        if found == _ID:
            start = source.pos
            found = yield from source.until((_ARGS, "{"), lambda _: None)
            call_id = source.text[start : source.pos - len(found)].strip()
        if found == "{":
            source.pos -= 1
        yield from self.named_object(name, call_id)
