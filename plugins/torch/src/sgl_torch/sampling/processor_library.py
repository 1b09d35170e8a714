"""Which logit processor a request means: an entry of the registry ``logit_processors`` by name, or a class that it brought itself."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from .processors import LogitProcessor
from .serialized import load_serialized

if TYPE_CHECKING:
    from sgl_core.registry import Registries

_KEPT = 64
"""Classes of clients that are kept once loaded."""


class ProcessorLibrary:
    """One instance serves all requests of a processor, so that their rows are edited together.

    ``serialized`` lets requests bring classes (``--enable-custom-logit-processor``).
    """

    def __init__(self, registries: Registries, *, serialized: bool = False) -> None:
        self._registries = registries
        self._serialized = serialized
        self._named: dict[str, LogitProcessor] = {}
        self._brought: OrderedDict[str, LogitProcessor] = OrderedDict()

    def find(self, name: str) -> LogitProcessor:
        """Raises ValueError where there is no such processor, or where it cannot be loaded."""
        if name.lstrip().startswith("{"):
            return self._bring(name)
        found = self._named.get(name)
        if found is None:
            found = self._named[name] = self._load(name)
        return found

    def _load(self, name: str) -> LogitProcessor:
        registry = self._registries.logit_processors
        if name not in registry:
            known = ", ".join(sorted(spec.name for spec in registry.specs())) or "none"
            raise ValueError(f"the logit processor {name!r} is not known here (known: {known})")
        made: LogitProcessor = registry.load(name)()
        return made

    def _bring(self, text: str) -> LogitProcessor:
        if not self._serialized:
            raise ValueError("requests bring no code: the server runs without --enable-custom-logit-processor")
        found = self._brought.pop(text, None) or load_serialized(text)
        self._brought[text] = found
        if len(self._brought) > _KEPT:
            self._brought.popitem(last=False)
        return found
