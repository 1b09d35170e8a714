"""Metric labels that clients send in a header (``--tokenizer-metrics-allowed-custom-labels``): a JSON object of texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from sgl_core.config import ConfigError

SENT: ContextVar[Mapping[str, str] | None] = ContextVar("sgl_metric_labels", default=None)
"""Inside an HTTP request: the labels that its client sent, by allowed names."""

MAX_CHARS = 128
"""Of a label's value; the rest is cut off."""
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OURS = frozenset({"model_name", "is_streaming", "cache_source", "finish_reason", "status_code", "le"})


@dataclass(frozen=True, slots=True)
class CustomLabels:
    """Which labels are read, and from which header (in lower case, as bytes)."""

    header: bytes
    names: tuple[str, ...]

    def read(self, headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
        """The labels of a request. What is not a JSON object of texts and numbers counts as nothing: it must not cost the answer."""
        value = next((value for name, value in headers if name == self.header), None)
        if value is None or len(value) > 8192:
            return {}
        try:
            sent = json.loads(value)
        except (ValueError, RecursionError):
            return {}
        if not isinstance(sent, dict):
            return {}
        return {
            name: str(sent[name])[:MAX_CHARS]
            for name in self.names
            if isinstance(sent.get(name), str | int | float) and not isinstance(sent[name], bool)
        }


def custom_labels(header: str | None, names: Sequence[str] | None, taken: Iterable[str] = ()) -> CustomLabels | None:
    """As the operator allows them; None where clients may send none. Raises ConfigError for a name that cannot be a label."""
    if not names or not header:
        return None
    field = "tokenizer_metrics_allowed_custom_labels"
    for name in names:
        if not _NAME.fullmatch(name) or name.startswith("__"):
            raise ConfigError(f"{field}: {name!r} is no name of a Prometheus label", fields=(field,))
        if name in _OURS or name in set(taken):
            raise ConfigError(f"{field}: {name!r} is the name of a label that metrics have already", fields=(field,))
    return CustomLabels(header.lower().encode("latin-1", "replace"), tuple(dict.fromkeys(names)))
