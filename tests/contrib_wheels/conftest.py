"""The wheels of contrib/ and an environment in which they are installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from stranger_environment import CONTRIB, PACKAGES, PIP, Environment, make_environment


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of contrib/, built without touching the network."""
    folder = tmp_path_factory.mktemp("wheels")
    subprocess.run(
        [*PIP, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
        + [str(CONTRIB / name) for name in PACKAGES],
        check=True,
    )
    return {path.name.split("-")[0].replace("_", "-"): path for path in folder.glob("*.whl")}


@pytest.fixture(scope="session")
def stranger(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with all of them."""
    environment = make_environment(tmp_path_factory.mktemp("stranger"))
    environment.install(*wheels.values())
    return environment
