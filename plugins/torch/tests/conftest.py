"""Before anything else: strict products, which MKL reads once."""

from __future__ import annotations

from typing import Any

import pytest

from sgl_torch.exactness import ask_for_strict_matmul

ask_for_strict_matmul()


@pytest.fixture(scope="session")
def registries() -> Any:
    from sgl_core.registry import Registries

    return Registries.discover()
