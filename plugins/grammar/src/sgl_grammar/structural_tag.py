"""Structural tags: text in which tags stand whose content is held, in the two forms that clients send, written as Lark for llguidance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sgl_core.api.grammar import GrammarError

from .lark import literal
from .schema.read import read_schema
from .schema.walk import step

_PLAIN: Mapping[str, frozenset[str]] = {
    "const_string": frozenset({"value"}),
    "json_schema": frozenset({"json_schema"}),
    "regex": frozenset({"pattern"}),
    "any_text": frozenset(),
    "sequence": frozenset({"elements"}),
    "or": frozenset({"elements"}),
    "optional": frozenset({"content"}),
    "star": frozenset({"content"}),
    "plus": frozenset({"content"}),
    "tag": frozenset({"begin", "content", "end"}),
    "triggered_tags": frozenset({"triggers", "tags", "at_least_one", "stop_after_first"}),
    "tags_with_separator": frozenset({"tags", "separator", "at_least_one", "stop_after_first"}),
}
"""The kinds of format that are written as Lark, each with the fields that have a meaning here."""


def read_tag(text: str) -> Mapping[str, Any]:
    """The format of a structural tag; the older form (``structures`` and ``triggers``) becomes ``triggered_tags``. Raises
    :class:`GrammarError`."""
    try:
        tag = json.loads(text)
        if "structures" not in tag:
            return dict(tag["format"])
        content = [{"type": "json_schema", "json_schema": s.get("schema", True)} for s in tag["structures"]]
        tags = [
            {"type": "tag", "begin": s["begin"], "content": c, "end": s["end"]}
            for s, c in zip(tag["structures"], content, strict=True)
        ]
        return {"type": "triggered_tags", "triggers": list(tag["triggers"]), "tags": tags}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GrammarError(
            f"a structural tag is an object with a format, or with structures (begin, schema, end) and triggers: {error!r}"
        ) from None


def formats(node: Any, pointer: str = "/format") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A format and all below it, with their JSON pointers."""
    if not isinstance(node, Mapping):
        raise GrammarError("a format is an object", pointer)
    yield pointer, node
    if isinstance(node.get("content"), Mapping):
        yield from formats(node["content"], step(pointer, "content"))
    for key in ("elements", "tags"):
        for index, inner in enumerate(node.get(key) or ()):
            yield from formats(inner, step(pointer, key, index))


def check_tag(root: Mapping[str, Any]) -> None:
    """Raises :class:`GrammarError` for a JSON schema inside that is none."""
    for pointer, node in formats(root):
        if node.get("type") == "json_schema":
            try:
                read_schema(json.dumps(node.get("json_schema")))
            except GrammarError as error:
                raise GrammarError(str(error), f"{step(pointer, 'json_schema')}{error.pointer}") from None


def to_lark(root: Mapping[str, Any], special: Mapping[str, int]) -> str:
    """The grammar. Raises :class:`GrammarError` with a pointer to a part that has no place in it."""
    for pointer, node in formats(root):
        kind = node.get("type", "tag" if "begin" in node else None)
        known = _PLAIN.get(str(kind))
        if known is None:
            raise GrammarError(f"llguidance does not serve structural tags with a format of type {kind}", pointer)
        extra = sorted(key for key in set(node) - known - {"type"} if node[key] not in (None, False, [], "json"))
        if extra:
            raise GrammarError(f"llguidance does not serve {extra[0]} in a structural tag", step(pointer, extra[0]))
    writer = _Writer(special)
    start = writer.term(root, "/format", last=True)
    return "\n".join(["%llguidance {}", f"start: {start}", *writer.rules]) + "\n"


class _Writer:
    def __init__(self, special: Mapping[str, int]) -> None:
        self.rules: list[str] = []
        self._special = special
        self._count = 0

    def term(self, node: Mapping[str, Any], pointer: str, *, last: bool = False) -> str:
        """The terms of a format; ``last`` says that the whole answer may end with it."""
        kind = node.get("type", "tag")
        if kind == "const_string":
            return literal(node["value"], self._special)
        if kind == "json_schema":
            return self._rule(f"%json {json.dumps(node['json_schema'])}")
        if kind == "regex":
            return self._rule("/" + node["pattern"].replace("/", "\\/") + "/")
        if kind == "any_text":
            if not last:
                raise GrammarError("any_text is served as a tag's content and at the end of the answer only", pointer)
            return self._rule("/(?s:.*)/")
        if kind in ("optional", "star", "plus"):
            mark = {"optional": "?", "star": "*", "plus": "+"}[kind]
            return f"({self.term(node['content'], step(pointer, 'content'))}){mark}"
        if kind in ("sequence", "or"):
            return self._elements(node, pointer, last)
        if kind == "tag":
            return self._tag(node, pointer, node["begin"])
        return (self._triggered if kind == "triggered_tags" else self._separated)(node, pointer)

    def _elements(self, node: Mapping[str, Any], pointer: str, last: bool) -> str:
        elements, either = node["elements"], node["type"] == "or"
        terms = [
            self.term(e, step(pointer, "elements", i), last=last and (either or i == len(elements) - 1))
            for i, e in enumerate(elements)
        ]
        return f"({' | '.join(terms)})" if either else " ".join(terms)

    def _tag(self, node: Mapping[str, Any], pointer: str, begin: Any) -> str:
        ends = [node["end"]] if isinstance(node["end"], str) else node["end"]
        if not isinstance(begin, str) or not isinstance(ends, list):
            raise GrammarError("llguidance serves tags whose begin and end are texts", pointer)
        content, opened = node["content"], literal(begin, self._special)
        if content.get("type") == "any_text":
            if len(ends) != 1 or not ends[0] or any(name in ends[0] for name in self._special):
                raise GrammarError("any_text in a tag needs one end, which is text", step(pointer, "end"))
            return f"{opened} {self._rule('/(?s:.*)/', f'[suffix={json.dumps(ends[0], ensure_ascii=False)}]')}"
        closed = " | ".join(literal(end, self._special) or '""' for end in ends)
        return f"{opened} {self.term(content, step(pointer, 'content'))} ({closed})"

    def _triggered(self, node: Mapping[str, Any], pointer: str) -> str:
        """Text that may hold a tag wherever a trigger comes: from there on one of the tags that begin with it must follow."""
        ways = []
        for trigger in node["triggers"]:
            begun = [(i, tag) for i, tag in enumerate(node["tags"]) if tag["begin"].startswith(trigger)]
            if not begun:
                raise GrammarError(f"no tag begins with the trigger {trigger}", step(pointer, "triggers"))
            tags = [self._tag(tag, step(pointer, "tags", i), tag["begin"].removeprefix(trigger)) for i, tag in begun]
            marker = literal(trigger, self._special)
            lead = self._rule(f"TEXT {marker}", "" if marker.startswith("<[") else "[lazy]")
            ways.append(f"{lead} ({' | '.join(tags)})")
        if "TEXT: /(?s:.*)/" not in self.rules:
            self.rules.append("TEXT: /(?s:.*)/")
        tagged = f"({' | '.join(ways)})"
        if node.get("stop_after_first"):
            return tagged if node.get("at_least_one") else f"({tagged} | TEXT)"
        return f"{tagged}{'+' if node.get('at_least_one') else '*'} TEXT"

    def _separated(self, node: Mapping[str, Any], pointer: str) -> str:
        tags = [self._tag(tag, step(pointer, "tags", i), tag["begin"]) for i, tag in enumerate(node["tags"])]
        one = self._rule(" | ".join(tags))
        more = "" if node.get("stop_after_first") else f" ({literal(node['separator'], self._special)} {one})*"
        return f"({one}{more}){'' if node.get('at_least_one') else '?'}"

    def _rule(self, body: str, attributes: str = "") -> str:
        self._count += 1
        name = f"part_{self._count}"
        self.rules.append(f"{name}{attributes}: {body}")
        return name
