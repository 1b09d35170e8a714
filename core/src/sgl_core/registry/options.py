"""Settings that plugins add (``--plugin-option ENTRY.OPTION=VALUE``): checked against the specs that declare them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sgl_core.api.specs import Option

from .errors import RegistryError, did_you_mean, nearest
from .registries import Registries
from .selection import SLOTS, Selection

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def declared_options(registries: Registries) -> dict[str, tuple[str, str, Option]]:
    """Every option that an installed spec declares: name to (registry, entry, option)."""
    return {
        option.name: (registry.info.name, spec.name, option)
        for registry in registries
        for spec in registry.specs()
        for option in spec.options
    }


def plugin_options(
    registries: Registries, given: Mapping[str, Any] | Iterable[str] | None, selection: Selection
) -> dict[str, Any]:
    """The options of the chosen entries, at their defaults or as given.

    ``given`` is a mapping or NAME=VALUE strings. Raises RegistryError for a name that nobody declares, a value of the wrong
    type, and an option of an entry that was not chosen: what nothing acts on is refused.
    """
    values = _defaults(registries, selection)
    pairs = _pairs(given)
    if not pairs:
        return values
    declared = declared_options(registries)
    slots = {slot.registry for slot in SLOTS}
    for name, value in pairs.items():
        if name not in declared:
            close = did_you_mean(nearest(name, declared))
            known = f"; known: {', '.join(sorted(declared))}" if declared else "; no installed plugin declares any"
            raise RegistryError(f"--plugin-option {name}: no installed plugin declares it{close}{known}", name=name)
        registry, entry, option = declared[name]
        chosen = list(dict.fromkeys(item["name"] for item in selection.values() if item["registry"] == registry))
        if registry in slots and entry not in chosen:
            instead = f"{', '.join(chosen)} is" if chosen else "nothing is"
            raise RegistryError(
                f"--plugin-option {name} would have no effect: {instead} chosen in {registry}, not {entry}", name=name
            )
        values[name] = convert(option, value)
    return values


def convert(option: Option, value: Any) -> Any:
    """A value as the option's type. Raises RegistryError naming the option and what it takes."""
    wanted = option.type
    try:
        if wanted is bool and isinstance(value, str):
            word = value.lower()
            if word not in (*_TRUE, *_FALSE):
                raise ValueError(value)
            converted: Any = word in _TRUE
        else:
            converted = wanted(value)
    except (TypeError, ValueError):
        raise RegistryError(
            f"--plugin-option {option.name} takes {wanted.__name__}, not {value!r}", name=option.name
        ) from None
    if option.choices and converted not in option.choices:
        legal = ", ".join(map(str, option.choices))
        raise RegistryError(f"--plugin-option {option.name} takes one of {legal}, not {value!r}", name=option.name)
    return converted


def _defaults(registries: Registries, selection: Selection) -> dict[str, Any]:
    return {
        option.name: option.default
        for item in selection.values()
        for option in registries[item["registry"]].spec(item["name"]).options
    }


def _pairs(given: Mapping[str, Any] | Iterable[str] | None) -> dict[str, Any]:
    if not given:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    pairs: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise RegistryError(f"--plugin-option {text!r} is not of the form ENTRY.OPTION=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs
