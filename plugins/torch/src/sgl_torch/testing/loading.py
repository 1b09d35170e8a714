"""Loads a checkpoint folder into a runner without a plan, reading its safetensors files directly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import load_file

from sgl_core.config.model_info import model_info_from_config

from ..exactness import ask_for_strict_matmul
from ..loading import Loaded, load
from ..settings import RuntimeSettings

if TYPE_CHECKING:
    from sgl_core.registry import Registries


def load_folder(
    folder: Path, registries: Registries, *, config: dict[str, Any] | None = None, **settings: Any
) -> Loaded:
    """``settings`` are fields of RuntimeSettings; ``config`` entries replace those of the folder's config.json."""
    ask_for_strict_matmul()
    hf_config = json.loads((folder / "config.json").read_text()) | (config or {})
    info = model_info_from_config(hf_config, str(folder))
    weights = (item for path in sorted(folder.glob("*.safetensors")) for item in load_file(path).items())
    chosen = {"max_total_tokens": 4096, "max_requests": 64, **settings}
    return load(info, RuntimeSettings(**chosen), registries, lambda what, done, total: None, weights)
