"""Serving: the request core, the HTTP routes, the launcher, and :class:`Engine` for use without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .offline import Engine

__all__ = ["Engine"]


def __getattr__(name: str) -> Any:
    if name == "Engine":
        from .offline import Engine

        return Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
