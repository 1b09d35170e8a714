"""Which values a field may take, asked of the installed packages: the link between declarations and registries."""

from __future__ import annotations

from typing import Any

from .declare import Field, FromRegistry
from .errors import did_you_mean
from .values import BadValue


def registry_of(registries: Any, name: str) -> Any | None:
    """The registry called ``name``, or None where this installation has none."""
    return registries[name] if registries is not None and name in registries else None


def offered(registries: Any, field: Field) -> tuple[Any, ...] | None:
    """The choices of a field to show: literal ones, or the names in its registry; None where anything goes.

    A registry in which no installed package has an entry checks nothing: `sgl serve` then refuses the value as not served.
    """
    if not isinstance(field.choices, FromRegistry):
        return field.choices
    registry = registry_of(registries, field.choices.registry)
    names = tuple(registry.names()) if registry is not None else ()
    if not names:
        return None
    return (*[word for word in field.choices.plus if word not in names], *names)


def check_choice(field: Field, value: Any, registries: Any) -> None:
    """Raise :class:`BadValue` where a value (or a list's item) is not among the field's choices or their aliases."""
    shown = offered(registries, field)
    if shown is None or value is None:
        return
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if item in shown or is_alias(registries, field, item):
            continue
        words = [str(name) for name in shown]
        raise BadValue(f"{item!r} is not a choice.{did_you_mean(str(item), words)} Choices: {', '.join(words)}")


def is_alias(registries: Any, field: Field, word: Any) -> bool:
    """Whether an entry of the field's registry goes by ``word`` too (aliases stand in specs: a light import each)."""
    if not isinstance(field.choices, FromRegistry):
        return False
    registry = registry_of(registries, field.choices.registry)
    return registry is not None and word in registry
