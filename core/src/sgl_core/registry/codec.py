"""Specs as plain JSON data and back: for ``sgl plugin --json`` and for entries added by program that a plan carries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from sgl_core.api.specs import Option, Spec

from .errors import RegistryError

_TYPES: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}


def spec_to_dict(spec: Spec, brief: bool = False) -> dict[str, Any]:
    """A spec's fields as JSON data: sets as sorted lists, options with their type's name. ``brief`` leaves defaults out."""
    result: dict[str, Any] = {}
    for f in fields(spec):
        value = getattr(spec, f.name)
        if f.name == "options":
            value = [_option_to_dict(option) for option in value]
        if brief and not value and value is not False:
            continue
        result[f.name] = _plain(value)
    return result


def spec_from_dict(spec_class: type[Spec], data: Mapping[str, Any]) -> Spec:
    """The inverse of :func:`spec_to_dict`. Raises RegistryError naming fields that the class lacks."""
    known = {f.name: f for f in fields(spec_class)}
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise RegistryError(f"{spec_class.__name__} has no field {', '.join(unknown)}", name=str(data.get("name", "")))
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name == "options":
            values[name] = tuple(_option_from_dict(option) for option in value)
        elif "frozenset" in str(known[name].type):
            values[name] = frozenset(value)
        elif "Mapping" in str(known[name].type):
            values[name] = {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}
        else:
            values[name] = tuple(value) if isinstance(value, list) else value
    return spec_class(**values)


def _option_to_dict(option: Option) -> dict[str, Any]:
    return {
        "name": option.name,
        "type": option.type.__name__,
        "default": option.default,
        "help": option.help,
        "choices": list(option.choices),
    }


def _option_from_dict(data: Mapping[str, Any]) -> Option:
    kind = _TYPES.get(data["type"])
    if kind is None:
        raise RegistryError(f"option {data['name']}: type {data['type']} is none of {', '.join(_TYPES)}")
    return Option(
        name=data["name"], type=kind, default=data["default"], help=data["help"], choices=tuple(data["choices"])
    )


def _plain(value: Any) -> Any:
    if isinstance(value, (frozenset, set)):
        return sorted(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value
