"""The model source ``hub``: a Hugging Face repository, through huggingface_hub, its cache and its environment settings.

``HF_HUB_OFFLINE``, ``HF_ENDPOINT``, ``HF_TOKEN`` and ``HF_HOME`` work as everywhere. Offline, or with ``download=False``, only
the cache is read and no connection is made.
"""

from __future__ import annotations

import fnmatch
import logging
from pathlib import Path

from sgl_core.api.worker import ProgressSink

from .files import CheckpointError

_logger = logging.getLogger(__name__)
_ALWAYS = ("*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken")
_FORMATS = ("*.safetensors", "*.bin", "*.pt", "*.pth")


def fetch(name: str, *, download: bool, revision: str | None, progress: ProgressSink | None) -> Path:
    """The cached snapshot of ``org/name``, downloaded where needed. Raises :class:`CheckpointError`.

    ``org/name:PART`` picks the GGUF file whose name holds PART (``Q4_K_M``, or the file's whole name).
    """
    from huggingface_hub import constants

    repo, _, part = name.partition(":")
    if not download or constants.HF_HUB_OFFLINE:
        return _from_cache(repo, part, revision)
    return _from_hub(repo, part, revision)


def _from_cache(repo: str, part: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        snapshot = Path(snapshot_download(repo, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, FileNotFoundError):
        raise CheckpointError(
            f"model {repo!r} is not in the hub cache and no connection is allowed (HF_HUB_OFFLINE, or download off); "
            "unset HF_HUB_OFFLINE, or give a local path"
        ) from None
    return _pick(repo, snapshot, part, [file.name for file in sorted(snapshot.glob("*.gguf"))])


def _from_hub(repo: str, part: str, revision: str | None) -> Path:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        listing = HfApi().model_info(repo, revision=revision).siblings or []
        names = [sibling.rfilename for sibling in listing if "/" not in sibling.rfilename]
        snapshot = Path(snapshot_download(repo, revision=revision, allow_patterns=_patterns(repo, names, part)))
    except GatedRepoError:
        raise CheckpointError(
            f"model {repo!r} is gated: accept its terms on the hub and set HF_TOKEN (or run 'hf auth login')"
        ) from None
    except RevisionNotFoundError:
        raise CheckpointError(f"model {repo!r} has no revision {revision!r}") from None
    except RepositoryNotFoundError:
        raise CheckpointError(
            f"no model {repo!r} on the hub, and no file or folder of that name here; check the spelling, "
            "or set HF_TOKEN if it is private"
        ) from None
    except HFValidationError as error:
        raise CheckpointError(f"model {repo!r} is neither a local path nor a hub id: {error}") from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        return _without_connection(repo, part, revision, error)
    except Exception as error:
        # The HTTP library behind the hub client changed between its major versions, and so do its connection errors.
        if "connect" not in type(error).__name__.lower() and "timeout" not in type(error).__name__.lower():
            raise
        return _without_connection(repo, part, revision, error)
    return _pick(repo, snapshot, part, [name for name in names if name.endswith(".gguf")])


def _without_connection(repo: str, part: str, revision: str | None, error: Exception) -> Path:
    try:
        found = _from_cache(repo, part, revision)
    except CheckpointError:
        raise CheckpointError(
            f"model {repo!r} is not in the hub cache and the hub cannot be reached ({type(error).__name__}: {error}); "
            "check the connection (HF_ENDPOINT, proxies), give a local path, or use the default model"
        ) from None
    _logger.warning("the hub cannot be reached (%s); using the cached copy of %s", type(error).__name__, repo)
    return found


def _patterns(repo: str, names: list[str], part: str) -> list[str]:
    """What to download: configuration, tokenizer, and the weights in the best format there is."""
    ggufs = [name for name in names if name.endswith(".gguf")]
    if part:
        return [*_ALWAYS, *_matching(repo, ggufs, part)]
    for pattern in _FORMATS:
        weights = [name for name in fnmatch.filter(names, pattern) if not name.startswith("consolidated")]
        if weights:
            return [*_ALWAYS, *weights]
    if len(ggufs) > 1 and not any("-of-" in name for name in ggufs):
        raise CheckpointError(
            f"model {repo!r} holds several GGUF files; choose one as {repo}:PART from {', '.join(ggufs)}"
        )
    return [*_ALWAYS, *ggufs, *fnmatch.filter(names, "consolidated*")]


def _matching(repo: str, ggufs: list[str], part: str) -> list[str]:
    chosen = [name for name in ggufs if name == part] or [name for name in ggufs if part.lower() in name.lower()]
    chosen = [name for name in chosen if not name.startswith("mmproj")] or chosen
    if not chosen:
        raise CheckpointError(
            f"model {repo!r} has no GGUF file with {part!r} in its name; it has: {', '.join(ggufs) or 'none'}"
        )
    if len(chosen) > 1 and not all("-of-" in name for name in chosen):
        raise CheckpointError(f"model {repo!r}: {part!r} fits several files: {', '.join(chosen)}")
    return chosen


def _pick(repo: str, snapshot: Path, part: str, ggufs: list[str]) -> Path:
    return snapshot / sorted(_matching(repo, ggufs, part))[0] if part else snapshot
