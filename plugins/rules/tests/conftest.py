"""The installed registries, which rules query for what a choice can do."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries


@pytest.fixture(scope="session")
def registries() -> Registries:
    return Registries.discover()
