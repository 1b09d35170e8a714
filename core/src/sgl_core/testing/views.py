"""A configuration view for tests of rules: every field at its default, or at the values given."""

from __future__ import annotations

from typing import Any

from sgl_core.config.fields import fields
from sgl_core.registry.registries import Registries


class UnknownField(AttributeError):
    """A rule asked for a field that does not exist."""


class DefaultsView:
    """Implements :class:`sgl_core.api.rules.View`; ``values`` count as set by the user."""

    def __init__(self, registries: Registries | None = None, **values: Any) -> None:
        self._registries = registries or Registries()
        self._values = values

    def __getattr__(self, field: str) -> Any:
        if field.startswith("_"):
            raise AttributeError(field)
        return self.given(field)

    def explicit(self, field: str) -> bool:
        return field in self._values

    def given(self, field: str) -> Any:
        if field in self._values:
            return self._values[field]
        if field not in fields():
            raise UnknownField(f"there is no configuration field {field!r}")
        return fields()[field].default

    def choices(self, registry: str) -> Any:
        return self._registries[registry]
