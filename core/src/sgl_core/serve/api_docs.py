"""Writes the page of all routes and fields: ``python -m sgl_core.serve.api_docs docs/api.md``."""

from __future__ import annotations

import re
import sys
import typing
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from .core.validate import NUMBERS
from .ollama.protocol import IGNORED, NEUTRAL, OPTIONS
from .reference.entry import RouteEntry
from .reference.table import ROUTES

BEGIN, END = "<!-- generated: routes -->", "<!-- end of generated -->"
_CHECKED = {
    "seed": "integer of 64 bits",
    "stop": "text or list of at most 64 texts",
    "stop_sequences": "list of at most 64 texts",
    "stop_regex": "pattern or list of at most 16",
    "stop_token_ids": "list of at most 256 token ids",
    "logit_bias": "object of token ids to numbers from -100 to 100",
    "top_k": "integer; 0 and -1: no limit",
    "max_tokens": "integer",
    "max_new_tokens": "integer",
    "max_completion_tokens": "integer from 1",
    "max_output_tokens": "integer from 1",
    "min_tokens": "integer from 0",
    "prompt": "text, texts, token ids or lists of them",
    "input": "text, texts, token ids or lists of them",
    "text": "text or texts",
    "input_ids": "token ids or lists of them",
    "json_schema": "JSON schema, as object or text",
    "structural_tag": "object or text",
    "token_ids_logprob": "token ids or lists of them",
    "tokens": "token ids or lists of them",
}
"""Types of fields that the core checks, which the models leave open."""


def page() -> str:
    """The generated part."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    served = [entry for entry in ROUTES if not entry.why]
    yield f"{len(served)} routes are served, {len(ROUTES) - len(served)} answer 501 with the reason. "
    yield ""
    for family in dict.fromkeys(entry.family for entry in ROUTES):
        own = [entry for entry in ROUTES if entry.family == family]
        yield f"## {family}"
        yield ""
        yield "| route | methods | key | | |"
        yield "|---|---|---|---|---|"
        for entry in own:
            status = "501" if entry.why else "served"
            yield f"| `{entry.path}` | {' '.join(entry.methods)} | {entry.who} | {status} | {_cell(entry.why or entry.summary)} |"
        yield ""
        for paths, entry in _bodies(own):
            yield from _fields(paths, entry)
    yield from _options()


def _bodies(entries: list[RouteEntry]) -> Iterator[tuple[list[str], RouteEntry]]:
    """Routes with a body; those that share one share a table."""
    found: dict[tuple[object, tuple[str, ...]], list[RouteEntry]] = {}
    for entry in entries:
        if entry.model is not None:
            found.setdefault((entry.model, tuple(entry.ignored)), []).append(entry)
    for same in found.values():
        yield [entry.path for entry in same], same[0]


def _fields(paths: list[str], entry: RouteEntry) -> Iterator[str]:
    yield "### " + ", ".join(f"`{path}`" for path in paths)
    yield ""
    yield "| field | type | | |"
    yield "|---|---|---|---|"
    for name, status, note in entry.fields():
        yield f"| `{name}` | {_cell(_type(entry.model, name))} | {status} | {_cell(note)} |"
    yield ""


def _type(model: type[BaseModel] | None, name: str) -> str:
    declared = model.model_fields.get(name) if model is not None else None
    if declared is None:
        return ""
    if name in NUMBERS:
        return f"number, {NUMBERS[name]}"
    words = _words(declared.annotation)
    if words == "any":
        words = _CHECKED.get(name, "any")
    return words + (", required" if declared.is_required() else "")


_PLAIN = {str: "text", int: "integer", float: "number", bool: "true or false", dict: "object", typing.Any: "any"}


def _words(annotation: object) -> str:
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is dict:
        return "object"
    if origin is list:
        return f"list of {_words(inner[0])}" if inner[0] is not typing.Any else "list"
    if inner:
        return " or ".join(dict.fromkeys(_words(part) for part in inner if part is not type(None)))
    return "object" if isinstance(annotation, type) and issubclass(annotation, BaseModel) else str(annotation)


def _options() -> Iterator[str]:
    yield "### Options of Ollama's routes"
    yield ""
    yield "| option | | |"
    yield "|---|---|---|"
    yield "| `num_predict` | served | -1 and -2: all that the context has left |"
    for name, chat in OPTIONS.items():
        yield f"| `{name}` | served | {'' if name == chat else f'`{chat}` of the chat route'} |"
    for name, values in NEUTRAL.items():
        yield f"| `{name}` | refused (400) | unless it is {' or '.join(f'{value:g}' for value in values)}, which asks for nothing |"
    for name in sorted(IGNORED):
        yield f"| `{name}` | accepted, no effect | the operator decides at start |"
    yield ""


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def updated(text: str) -> str:
    """A page with its generated part renewed. Raises ValueError where the page has no place for it."""
    if BEGIN not in text or END not in text:
        raise ValueError(f"the page needs the lines {BEGIN} and {END}")
    before, rest = text.split(BEGIN, 1)
    return f"{before}{BEGIN}\n{page()}\n{END}{rest.split(END, 1)[1]}"


def main(argv: list[str]) -> int:
    """Renew the pages that are named."""
    for name in argv:
        path = Path(name)
        path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
