"""Where the virtual environments of heavy clients are, and which there are: one for each ``NAME.txt`` beside this file."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent
ROOT = Path(os.environ.get("SGL_CLIENTS") or HERE.parents[2] / ".clients")
"""The folder that holds them; ``SGL_CLIENTS`` names another."""


def names() -> list[str]:
    """The environments, each with the exact versions of all its packages in a file of that name."""
    return sorted(path.stem for path in HERE.glob("*.txt"))


def program(name: str, command: str = "python") -> Path:
    """A program of an environment, whether or not it is installed."""
    return ROOT / name / "bin" / command


def versions(name: str) -> dict[str, str]:
    """What is wanted of an environment: the versions of the first paragraph of its list."""
    found = {}
    for line in (HERE / f"{name}.txt").read_text(encoding="utf-8").splitlines()[1:]:
        if line.startswith("#"):
            break
        package, _, version = line.partition("==")
        found[package] = version
    return found
