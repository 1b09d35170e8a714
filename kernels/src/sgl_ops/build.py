"""``python -m sgl_ops.build``: compiles the library with cmake and ninja into the cache folder, keyed by the sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .library import HOW, NAME, cache_dir, source_dir, source_key


class BuildError(RuntimeError):
    """The library could not be built; the message says what is missing."""


def tool(name: str) -> str:
    """Path of a build tool: beside this Python (pip-installed) or on PATH."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if not found:
        raise BuildError(f"`{name}` is not installed. {HOW}")
    return found


def compiler() -> str:
    """The C++ compiler: $CXX, else c++, g++ or clang++."""
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and shutil.which(name):
            return name
    raise BuildError(f"no C++ compiler found (set CXX, or install g++ or clang++). {HOW}")


def build(*, force: bool = False, quiet: bool = False) -> Path:
    """Compile the sources of this package; gives the library's path. Returns at once if it is there already."""
    sources = source_dir()
    if sources is None:
        raise BuildError("this installation carries no C++ sources: reinstall sgl-ops")
    target = cache_dir() / source_key(sources) / NAME
    if target.is_file() and not force:
        return target
    cmake, ninja, cxx = tool("cmake"), tool("ninja"), compiler()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sgl-ops-") as work:
        configure = [
            cmake,
            "-S",
            str(sources),
            "-B",
            work,
            "-G",
            "Ninja",
            f"-DCMAKE_MAKE_PROGRAM={ninja}",
            f"-DCMAKE_CXX_COMPILER={cxx}",
        ]
        for command in (configure, [ninja, "-C", work]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise BuildError(f"`{' '.join(command)}` failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
            if not quiet:
                print(done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "")
        # Rename is atomic: a server that starts meanwhile sees the whole file or none.
        part = target.with_suffix(f".{os.getpid()}")
        shutil.copy2(Path(work) / NAME, part)
        part.replace(target)
    return target


def main() -> int:
    """Build and say where the library is."""
    try:
        path = build(force="--force" in sys.argv[1:])
    except BuildError as error:
        print(f"sgl_ops.build: {error}", file=sys.stderr)
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
