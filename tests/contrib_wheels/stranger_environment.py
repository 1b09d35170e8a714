"""An environment of its own in which the packages of contrib/ are installed from wheels, as a stranger would have them.

The environment sees the project's site-packages through a .pth file, so that torch is not installed again; the third-party
packages exist only in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONTRIB = Path(__file__).parents[2] / "contrib"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
PACKAGES = ("sgl-example-attention", "sgl-example-model", "sgl-example-output", "sgl-example-vendor")


@dataclass(frozen=True)
class Environment:
    """A virtual environment. ``sgl`` runs the command line there in an empty working directory."""

    root: Path

    @property
    def python(self) -> str:
        return str(self.root / "bin" / "python")

    @property
    def site_packages(self) -> Path:
        (folder,) = (self.root / "lib").glob("python*/site-packages")
        return folder

    def run(self, *command: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        work = self.root / "work"
        work.mkdir(exist_ok=True)
        full = {name: value for name, value in os.environ.items() if not name.startswith("SGL_")} | (env or {})
        return subprocess.run(
            [self.python, *command],
            cwd=work,
            env=full | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def sgl(self, *args: str, status: int = 0, env: dict[str, str] | None = None) -> str:
        """Run ``sgl``, insist on the exit status, give stdout (or, for a failure, stderr)."""
        done = self.run("-m", "sgl_core", *args, env=env)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stderr if status else done.stdout

    def json(self, *args: str) -> Any:
        return json.loads(self.sgl(*args))

    def install(self, *wheels: Path) -> None:
        subprocess.run(
            [
                *PIP,
                "--python",
                self.python,
                "install",
                "-q",
                "--no-deps",
                "--no-index",
                "--no-compile",
                *map(str, wheels),
            ],
            check=True,
        )


def make_environment(root: Path) -> Environment:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root)], check=True)
    environment = Environment(root)
    project = sysconfig.get_paths()["purelib"]
    (environment.site_packages / "project.pth").write_text(f"import site; site.addsitedir({project!r})\n")
    return environment
