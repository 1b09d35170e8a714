"""Tiny checkpoints, each made once per run, and the registries as installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sgl_torch.exactness import ask_for_strict_matmul

ask_for_strict_matmul()  # before MKL's first call, or it stays as it is


@pytest.fixture(scope="session")
def registries() -> Any:
    from sgl_core.registry import Registries

    return Registries.discover()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Any]]:
    """``tiny(case)`` gives (checkpoint folder, transformers model)."""
    from sgl_torch.testing import tiny_models

    made: dict[str, tuple[Path, Any]] = {}

    def get(case: str) -> tuple[Path, Any]:
        if case not in made:
            folder = tmp_path_factory.mktemp(case)
            made[case] = folder, tiny_models.make(case, folder)
        return made[case]

    return get
