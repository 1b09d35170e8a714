"""What the operator may set of the HTTP side, apart from the model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """``cors_origins``: None for the default policy (see cors.py), ``("*",)`` for every origin, or exact origins.

    ``api_keys`` admit to all routes but the administrator's where there is an ``admin_key``.
    """

    api_keys: tuple[str, ...] = ()
    admin_key: str | None = None
    cors_origins: tuple[str, ...] | None = None
    max_body_bytes: int = 64 * 1024 * 1024
    root_path: str = ""
    header_seconds: float = 5.0
    """How long a stream waits for its first event before it answers 200, so that early failures keep their status."""
    file_storage: str | None = None
    """The folder of uploaded files and batches; None: neither is served."""
    docs_page: bool = False
    """Whether /docs is a page of all routes."""
