"""From what a user wrote to a field's value: types, sizes, JSON, lists, choices. The same checks for flag, environment and file."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from .declare import Field
from .errors import did_you_mean

SI = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
IEC = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
TRUE_WORDS = ("1", "true", "yes", "on")
FALSE_WORDS = ("0", "false", "no", "off")
GRAPH_KEYS = {
    "decode": ("backend", "max_bs", "bs", "tc_compiler"),
    "prefill": ("backend", "max_bs", "bs", "tc_compiler", "full_prefill_max_req", "full_prefill_prefix_chunk_tokens"),
}


class BadValue(ValueError):
    """A value is not of the field's type or not among its choices; the text says what would be."""


def parse_size(text: str) -> int:
    """``64k`` = 64000, ``1.5M`` = 1500000, ``2Ki`` = 2048, or a plain integer. Suffixes are case-sensitive."""
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)", text.strip())
    if match:
        number, suffix = match.groups()
        if suffix in SI:
            return int(Decimal(number) * SI[suffix])
        if "." in number:
            raise BadValue(f"{text!r}: {suffix} takes whole numbers; write {number}{suffix[0]} for powers of ten")
        return int(number) * IEC[suffix]
    try:
        return int(text)
    except ValueError:
        raise BadValue(
            f"{text!r} is not a size; write an integer, or a number with k M G T or Ki Mi Gi Ti (64k, 1.5M, 2Ki)"
        ) from None


def parse_json(text: str) -> Any:
    """JSON text. Raises :class:`BadValue` with the place of the mistake."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadValue(f"{text!r} is not JSON: {error}") from None


def from_text(field: Field, text: str) -> Any:
    """The value that one word of text stands for (for a list field: one item)."""
    if field.parse == "size":
        return parse_size(text)
    if field.parse in ("json", "graph_config"):
        return parse_json(text)
    if field.parse == "json_list":
        value = parse_json(text)
        if not isinstance(value, list):
            raise BadValue(f"{text!r} is not a JSON list")
        return value
    if field.parse == "nullable":
        return None if text in ("", "None") else text
    if field.parse == "lora_paths":
        return lora_path(text)
    if field.is_switch:
        return parse_bool(text)
    kind = field.item_type if field.is_list else scalar_type(field)
    return convert_word(kind, text)


def convert_word(kind: Any, text: str) -> Any:
    """``text`` as an int, float or str."""
    if kind is int:
        try:
            return int(text)
        except ValueError:
            raise BadValue(f"{text!r} is not an integer") from None
    if kind is float:
        try:
            return float(text)
        except ValueError:
            raise BadValue(f"{text!r} is not a number") from None
    return text


def parse_bool(text: str) -> bool:
    """1/true/yes/on or 0/false/no/off, in any case."""
    word = text.strip().lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise BadValue(f"{text!r} is neither true nor false; write true or false")


def lora_path(text: str) -> Any:
    """``PATH``, ``NAME=PATH`` or a JSON object with ``lora_name`` and ``lora_path``."""
    word = text.strip()
    if not word.startswith("{"):
        return word
    value = parse_json(word)
    if not isinstance(value, dict) or not {"lora_name", "lora_path"} <= set(value):
        raise BadValue(f"{text!r} must have lora_name and lora_path")
    return value


def scalar_type(field: Field) -> Any:
    """int, float or str: what a single word of the field is."""
    if field.base_type in (int, float, bool):
        return field.base_type
    if isinstance(field.choices, tuple) and field.choices and all(isinstance(c, int) for c in field.choices):
        return int
    return str


def check_value(field: Field, value: Any) -> Any:
    """``value`` as the field holds it. Raises :class:`BadValue` where it is of another type.

    Accepts what a config file or a Python caller writes: real ints, floats, bools, lists and mappings, and text where text
    has a form (sizes, JSON).
    """
    if value is None:
        if field.optional or field.default is None:
            return None
        raise BadValue(f"must not be empty; it takes {field.type_text}")
    if isinstance(value, str) and field.parse and field.parse != "nullable" and not field.is_list:
        value = from_text(field, value)
    if field.parse == "nullable":
        return from_text(field, value) if isinstance(value, str) else wrong(field, value)
    if field.parse == "graph_config":
        return check_graph_config(value)
    if field.parse == "json":
        return value
    if field.is_list or field.parse == "json_list":
        return check_list(field, value)
    return check_scalar(field, value)


def check_list(field: Field, value: Any) -> Any:
    """A list (a set, tuple or single word is taken as one); items of the declared type. Mappings only for LoRA paths."""
    if field.parse == "lora_paths":
        if isinstance(value, dict):
            return value
        items = value if isinstance(value, (list, tuple)) else [value]
        return [lora_path(i) if isinstance(i, str) else i for i in items]
    if isinstance(value, (str, int, float)) and not isinstance(value, bool) and not field.parse:
        value = [value]
    if not isinstance(value, (list, tuple, set, frozenset)):
        return wrong(field, value)
    items = sorted(value) if isinstance(value, (set, frozenset)) else list(value)
    kind = field.item_type
    if kind in (int, float, str):
        items = [check_item(field, kind, item) for item in items]
    return items


def check_item(field: Field, kind: Any, item: Any) -> Any:
    """One item of a list: an int may stand for a float, nothing else is converted."""
    if kind is float and type(item) is int:
        return float(item)
    return item if type(item) is kind else wrong(field, item)


def check_scalar(field: Field, value: Any) -> Any:
    """A single value: int for int or float, text for text; a bool is never a number."""
    kind = scalar_type(field)
    base = field.base_type
    if base is bool:
        if isinstance(value, bool):
            return value
        return parse_bool(value) if isinstance(value, str) else wrong(field, value)
    if kind is int:
        return value if type(value) is int else wrong(field, value)
    if kind is float:
        return value if type(value) in (int, float) else wrong(field, value)
    if isinstance(value, dict) and (base is dict or "dict" in field.type_text):
        return value
    if isinstance(value, str) or (callable(value) and "Callable" in str(field.type)):
        return value
    return wrong(field, value)


def check_graph_config(value: Any) -> Any:
    """Per-phase graph settings: ``{"decode": {...}, "prefill": {...}}`` with the keys that each phase knows."""
    if not isinstance(value, dict):
        raise BadValue(f"{value!r} must be an object with the keys {' and '.join(GRAPH_KEYS)}")
    for phase, settings in value.items():
        if phase not in GRAPH_KEYS:
            raise BadValue(
                f"unknown phase {phase!r}.{did_you_mean(str(phase), GRAPH_KEYS)} Phases: {', '.join(GRAPH_KEYS)}"
            )
        if not isinstance(settings, dict):
            raise BadValue(f"the settings of {phase} must be an object, not {settings!r}")
        for key in settings:
            if key not in GRAPH_KEYS[phase]:
                near = did_you_mean(str(key), GRAPH_KEYS[phase])
                raise BadValue(f"{phase} has no setting {key!r}.{near} It has: {', '.join(GRAPH_KEYS[phase])}")
    return value


def wrong(field: Field, value: Any) -> Any:
    """Raise: the value is of another type."""
    raise BadValue(f"{value!r} is a {type(value).__name__}; it takes {field.type_text}")
