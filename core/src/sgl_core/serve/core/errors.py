"""RequestError: the one exception by which a request is refused or fails, before any API gives it its shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class RequestError(Exception):
    """A request that is refused or that failed. ``message`` goes to the client as it stands.

    ``param`` is the client's name of the offending field, ``code`` a word a program can test, ``status`` the HTTP status.
    """

    def __init__(self, message: str, *, param: str | None = None, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.status = status
        self.code = code

    @property
    def kind(self) -> str:
        """The OpenAI error type of the status."""
        return KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")


KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "server_error",
    501: "not_implemented_error",
    503: "service_unavailable_error",
}


def refuse(param: str, because: str) -> RequestError:
    """A 400 that names the field: ``temperature: must be ...``."""
    return RequestError(f"{param}: {because}", param=param, code="invalid_value")


def unsupported(param: str, because: str) -> RequestError:
    """A 400 for a field that we know and cannot serve."""
    return RequestError(f"{param} is not supported: {because}", param=param, code="unsupported_parameter")


def refuse_unserved(extras: Mapping[str, Any], reasons: Mapping[str, str]) -> None:
    """Raises RequestError for the first field of ``extras`` that has a reason not to be served and asks for something."""
    for name, value in extras.items():
        if name in reasons and value not in (None, False, "", [], {}):
            raise unsupported(name, reasons[name])
