"""RouteEntry: one route of the table, and what may be said of a field of its body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from sgl_core.serve.http.auth import ADMIN_PATHS, OPEN_PATHS


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteEntry:
    """One path with its methods. ``refused`` are fields that are a 400 with the reason, ``ignored`` those that are taken and change nothing.

    ``why`` says why a route is a 501; empty for routes that are served. ``answers`` are the media types of a success.
    """

    path: str
    methods: tuple[str, ...] = ("POST",)
    family: str
    summary: str
    model: type[BaseModel] | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    answers: tuple[str, ...] = ("application/json",)
    query: tuple[str, ...] = ()
    why: str = ""
    form: bool = False
    body_optional: bool = False

    @property
    def who(self) -> str:
        """Whose key opens the route, where keys are set."""
        return "admin" if self.path in ADMIN_PATHS else "none" if self.path in OPEN_PATHS else "user"

    def fields(self) -> Iterator[tuple[str, str, str]]:
        """(field, status, note) of the body: served first, then what is ignored and what is refused."""
        served = self.model.model_fields if self.model is not None else {}
        for name in served:
            if name in self.ignored:
                yield name, "accepted, no effect", self.ignored[name]
            else:
                yield name, "served", ""
        for name, note in self.ignored.items():
            if name not in served:
                yield name, "accepted, no effect", note
        for name, note in self.refused.items():
            yield name, "refused (400)", note
