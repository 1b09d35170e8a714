"""Makes the virtual environments of the heavy clients: ``python tests/clients/install.py [NAME ...]`` (``make clients``).

Every package is listed with its version and installed without asking for dependencies, so nothing else comes along. An
environment whose list has not changed stays as it is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "venvs"))
from environments import HERE, ROOT, names, program


def install(name: str) -> None:
    """Make one environment anew where its list says other than what was installed."""
    wanted, installed = HERE / f"{name}.txt", ROOT / name / "installed.txt"
    if installed.exists() and installed.read_bytes() == wanted.read_bytes():
        return
    shutil.rmtree(ROOT / name, ignore_errors=True)
    print(f"{name}: {ROOT / name}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(ROOT / name)], check=True)
    pip = [str(program(name)), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "-r", str(wanted)], check=True)
    shutil.copyfile(wanted, installed)


def main(asked: list[str]) -> int:
    """Install what is asked for, or all."""
    unknown = sorted(set(asked) - set(names()))
    if unknown:
        print(f"no such client: {', '.join(unknown)}; there are {', '.join(names())}", file=sys.stderr)
        return 2
    for name in asked or names():
        install(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
