"""Config: the resolved configuration, frozen and nested by subject, with JSON in and out so that it can travel in a plan."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from .fields import fields
from .server_args import known_field, masked


class Section:
    """The fields (and inner sections) of one namespace, as attributes: ``config.exec.moe.moe_a2a_backend``."""

    __slots__ = ("_path", "_values")

    _path: str
    _values: Mapping[str, Any]

    def __init__(self, path: str, values: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_path", path)
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in namespaces().get(self._path, ()):
            return self._values[name]
        inner = f"{self._path}.{name}" if self._path else name
        if any(path == inner or path.startswith(inner + ".") for path in namespaces()):
            return Section(inner, self._values)
        declared = fields().get(name)
        hint = f"; it is config.{declared.namespace}.{name}" if declared else ""
        raise AttributeError(f"config{'.' + self._path if self._path else ''} has no {name!r}{hint}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("the configuration is frozen")

    def __dir__(self) -> list[str]:
        return sorted(self.__iter__())

    def __iter__(self) -> Iterator[str]:
        """The names of the section's own fields."""
        return iter(namespaces().get(self._path, ()))


class Config(Section):
    """Every field's final value. Values are plain data; they are not to be changed in place."""

    __slots__ = ()

    def __init__(self, values: Mapping[str, Any]) -> None:
        """``values`` by field name; fields that are not in it have their default."""
        for name in values:
            known_field(name)
        table = {name: declared.default for name, declared in fields().items()}
        super().__init__("", {**table, **deepcopy(dict(values))})

    def get(self, name: str) -> Any:
        """The value of a field by its flat name. Raises KeyError with the nearest names."""
        known_field(name)
        return self._values[name]

    def flat(self, *, show_secrets: bool = False) -> dict[str, Any]:
        """All values by field name; secrets starred unless asked for."""
        if show_secrets:
            return dict(self._values)
        return {name: masked(declared, self._values[name]) for name, declared in fields().items()}

    def nested(self, *, show_secrets: bool = False) -> dict[str, Any]:
        """All values by namespace: ``{"exec": {"moe": {...}}, ...}``."""
        tree: dict[str, Any] = {}
        for name, value in self.flat(show_secrets=show_secrets).items():
            branch = tree
            for step in fields()[name].namespace.split("."):
                branch = branch.setdefault(step, {})
            branch[name] = value
        return tree

    def replaced(self, **values: Any) -> Config:
        """The same configuration with some values replaced."""
        return Config({**self._values, **values})

    def to_json(self) -> str:
        """The whole configuration, secrets in clear (it goes to our own workers). Raises TypeError for a value that is no data."""
        return json.dumps(self.nested(show_secrets=True), sort_keys=True)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Config:
        """From a nested or a flat mapping. Raises KeyError for a name that is neither field nor namespace."""
        return cls(flattened(data))

    @classmethod
    def from_json(cls, text: str) -> Config:
        """The inverse of :meth:`to_json`."""
        return cls.from_dict(json.loads(text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._values == other._values

    def __hash__(self) -> int:
        return hash(repr(sorted(self._values.items(), key=lambda item: item[0])))

    def __repr__(self) -> str:
        changed = {n: v for n, v in self.flat().items() if v != fields()[n].default}
        return f"Config({', '.join(f'{n}={v!r}' for n, v in changed.items())})"

    def __reduce__(self) -> Any:
        return Config, (dict(self._values),)


@cache
def namespaces() -> dict[str, dict[str, None]]:
    """The field names of each namespace, in order."""
    table: dict[str, dict[str, None]] = {}
    for name, declared in fields().items():
        table.setdefault(declared.namespace, {})[name] = None
    return table


def flattened(data: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Nested values by flat field name."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        inner = f"{path}.{key}" if path else key
        is_section = any(name == inner or name.startswith(inner + ".") for name in namespaces())
        declared = fields().get(key)
        if declared is not None and not (is_section and isinstance(value, Mapping) and path == ""):
            flat[key] = value
        elif is_section and isinstance(value, Mapping):
            flat.update(flattened(value, inner))
        else:
            known_field(key)
    return flat
