"""A request's ``custom_logit_processor``: the name of an installed one, or a class that the client serialized with dill."""

from __future__ import annotations

import json
import pickletools
from typing import Any

from .errors import RequestError, refuse
from .request import ModelCard
from .validate import shown

FIELD = "custom_logit_processor"
MAX_CHARS = 1 << 20
"""Of a serialized class."""


def logit_processor(value: Any, card: ModelCard) -> str | None:
    """The name, or the serialized class as it came; None where there is none.

    Classes that the reference system ships are pickled by name: they mean our own of that name, and nothing is unpickled.
    Raises RequestError (400) for an unknown name, and for a class where the operator lets requests bring none.
    """
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise refuse(FIELD, f"must be the name of a processor or a serialized class, not {shown(value)}")
    named = card.logit_processors.get(value)
    if named is not None:
        return named
    if not value.lstrip().startswith("{"):
        known = ", ".join(sorted(set(card.logit_processors.values()))) or "none"
        raise refuse(FIELD, f"there is no processor {shown(value)}; installed: {known}")
    if not card.serialized_processors:
        raise RequestError(
            f"{FIELD}: requests bring no code to this server; it would have to be started with "
            "--enable-custom-logit-processor (an installed processor can be named without it)",
            param=FIELD,
            code="custom_logit_processor_disabled",
        )
    return _serialized(value, card)


def _serialized(value: str, card: ModelCard) -> str:
    if len(value) > MAX_CHARS:
        raise refuse(FIELD, f"has {len(value)} characters; at most {MAX_CHARS} are served")
    try:
        data = bytes.fromhex(json.loads(value)["callable"])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise refuse(FIELD, 'must be {"callable": "<dill in hexadecimal digits>"}, as to_str() gives it') from None
    return card.logit_processors.get(_class_name(data), value)


def _class_name(data: bytes) -> str:
    """The name of the class where the pickle is but a module's and a class's name; nothing of it is run."""
    texts: list[str] = []
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in ("PROTO", "FRAME", "MEMOIZE", "BINPUT", "PUT"):
                continue
            if opcode.name in ("SHORT_BINUNICODE", "BINUNICODE", "UNICODE"):
                texts.append(str(argument))
            elif opcode.name == "GLOBAL":
                texts += str(argument).split(" ", 1)
            elif opcode.name == "STOP":
                break
            elif opcode.name != "STACK_GLOBAL":
                return ""
    except ValueError:
        return ""
    return texts[1] if len(texts) == 2 and texts[0].startswith("sglang.") else ""
