"""The model that an explanation is about: files on disk, a cached repository, a config.json, or an architecture's example."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sgl_core.api.model_info import ModelInfo

from .errors import ConfigError, did_you_mean
from .model_info import model_info_from_config

EXAMPLES = Path(__file__).parent / "examples"


def example_architectures() -> list[str]:
    """The architectures with an example configuration. The examples are small: eight layers, real head counts."""
    return sorted(file.stem for file in EXAMPLES.glob("*.json"))


def model_info_of(model: str, registries: Any, revision: str | None = None) -> ModelInfo:
    """Facts about MODEL, without a download. Raises :class:`ConfigError` where it cannot be found."""
    example = EXAMPLES / f"{model}.json"
    if model.isidentifier() and example.is_file():
        return model_info_from_config(json.loads(example.read_text(encoding="utf-8")), path=model)
    if model.endswith(".json") and Path(model).is_file():
        return from_config_file(Path(model))
    from sgl_core.checkpoint.files import CheckpointError
    from sgl_core.checkpoint.sources import locate

    try:
        files = locate(model, registries, download=False, revision=revision)
        return model_info_from_config(files.config, path=str(files.path), weight_bytes=files.weight_bytes)
    except (CheckpointError, ValueError) as error:
        near = did_you_mean(model, example_architectures())
        raise ConfigError(
            f"MODEL {model!r}: {error}{near}",
            fields=("model_path",),
            fix=f"give a path, a cached repository id, or one of the examples {', '.join(example_architectures())}",
        ) from None


def from_config_file(file: Path) -> ModelInfo:
    """Facts about the model that a config.json describes."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        return model_info_from_config(data, path=str(file.parent))
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"{file}: {error}", fields=("model_path",)) from None
