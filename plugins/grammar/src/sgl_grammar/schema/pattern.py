"""JSON schema's patterns and formats as expressions over a whole text, in the dialect of llguidance's lexer (Rust's regex)."""

from __future__ import annotations

import re

from sgl_core.api.grammar import GrammarError

_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_"}
_CONTROLS = frozenset("nrtfv")

_DAY = "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"  # no leap day
_DATE = "[0-9]{4}-" + _DAY
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"

FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "duration": r"P([0-9]{1,4}W|([0-9]{1,4}D|[0-9]{1,4}M([0-9]{1,4}D)?|[0-9]{1,4}Y([0-9]{1,4}M([0-9]{1,4}D)?)?)(T[0-9]{1,4}H)?)",
    "email": rf"[A-Za-z0-9_+-]{{1,32}}(\.[A-Za-z0-9_+-]{{1,16}}){{0,2}}@({_LABEL}\.){{1,3}}[A-Za-z]{{2,12}}",
    "hostname": rf"({_LABEL}\.){{0,3}}[A-Za-z]{{2,12}}",
    "ipv4": rf"{_BYTE}(\.{_BYTE}){{3}}",
    "ipv6": "([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}",
    "uuid": "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    "uri": rf"https?://({_LABEL}\.){{0,3}}[A-Za-z]{{2,12}}(:[0-9]{{1,4}})?(/[A-Za-z0-9_.~-]{{0,64}}){{0,16}}(\?[A-Za-z0-9_.~=&-]{{0,256}})?",
}
"""Each matches valid texts of its format only, though not all of them: no leap days, no folded IPv6 addresses, no exotic URIs."""


def escape(text: str) -> str:
    """An expression that matches a text and nothing else."""
    return "".join(c if c.isalnum() or ord(c) > 127 else f"\\x{{{ord(c):x}}}" for c in text)


def whole(pattern: str) -> str:
    """An expression for all texts in which ``pattern`` (ECMA 262) is found somewhere. Raises :class:`GrammarError` for what cannot be held."""
    return "|".join(_anchored(branch) for branch in _branches(pattern))


def _anchored(branch: str) -> str:
    begins = branch.startswith("^")
    body = branch[1:] if begins else branch
    ends = body.endswith("$") and (len(body) - len(body[:-1].rstrip("\\"))) % 2 == 1
    body = _translated(body[:-1] if ends else body)
    return f"({'' if begins else '(?s:.*)'}({body}){'' if ends else '(?s:.*)'})"


def _branches(pattern: str) -> list[str]:
    """The alternatives at the outermost level."""
    out, depth, in_class, escaped = [""], 0, False, False
    for char in pattern:
        if char == "|" and not (depth or in_class or escaped):
            out.append("")
            continue
        out[-1] += char
        if escaped or char == "\\":
            escaped = not escaped
        elif in_class or char == "[":
            in_class = char != "]"
        else:
            depth += (char == "(") - (char == ")")
    return out


def _translated(body: str) -> str:
    """ECMA's escapes and dot in Rust's terms; what Rust lacks or means differently is refused."""
    out, at, in_class = "", 0, False
    while at < len(body):
        char = body[at]
        at += 1
        if char == "\\":
            piece, at = _escape(body, at, in_class)
            out += piece
            continue
        if in_class:
            in_class = char != "]"
            out += "\\" + char if char in "[&~" else char
            continue
        if char in "^$":
            raise GrammarError("a pattern with an anchor in its middle cannot be held in tag syntax")
        if char == "(" and body[at : at + 1] == "?" and body[at : at + 2] != "?:":
            raise GrammarError("a pattern that looks around, or names a group, cannot be held in tag syntax")
        in_class = char == "["
        if in_class and body[at : at + 1] == "^":
            char, at = "[^", at + 1
        out += r"[^\n\r\u{2028}\u{2029}]" if char == "." else "\\x{2f}" if char == "/" else char
    return out


def _escape(body: str, at: int, in_class: bool) -> tuple[str, int]:
    char = body[at : at + 1]
    if char.lower() in _CLASSES and (char.islower() or not in_class):
        inner = _CLASSES[char.lower()]
        return (inner if in_class else f"[{'^' if char.isupper() else ''}{inner}]"), at + 1
    if char == "s" or (char == "S" and not in_class):
        return "\\" + char, at + 1
    if char == "u" and re.fullmatch("[0-9a-fA-F]{4}", body[at + 1 : at + 5]):
        return f"\\x{{{body[at + 1 : at + 5]}}}", at + 5
    category = re.match(r"[pP]\{[A-Za-z_=]+\}", body[at:])
    if category:
        return "\\" + category.group(), at + category.end()
    if char in _CONTROLS:
        return "\\" + char, at + 1
    if char and not char.isalnum():
        return escape(char), at + 1
    raise GrammarError(f"a pattern with \\{char} cannot be held in tag syntax")
