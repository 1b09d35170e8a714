"""Makes ``environments`` importable, and skips what asks for an environment that is not installed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "venvs"))

from environments import program


@pytest.fixture(scope="session")
def client_program() -> Callable[..., str]:
    """``client_program("router", "smg")``: the path of a program; skips where ``make clients`` has not installed it."""

    def find(name: str, command: str = "python") -> str:
        path = program(name, command)
        if not path.exists():
            pytest.skip(f"the client {name} is not installed: make clients")
        return str(path)

    return find
