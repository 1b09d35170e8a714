"""Finding the library and telling why not, the thread pool, and the instruction set chosen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sgl_ops
from sgl_ops.library import candidates, load, source_dir, source_key

ISAS = ["generic", "avx2", "avx512", "avx512vnni", "amx"]


def python(code: str, **env: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_available_here() -> None:
    found = sgl_ops.available()
    assert found
    assert found.ok
    assert found.reason == ""
    assert found.isa in ISAS
    assert Path(found.path).is_file()


def test_a_missing_library_says_where_it_looked_and_how_to_get_it(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.so"
    text = python("import sgl_ops; a = sgl_ops.available(); print(bool(a), a.reason)", SGL_OPS_LIBRARY=str(missing))
    assert text.startswith("False")
    assert str(missing) in text
    assert "python -m sgl_ops.build" in text


def test_a_broken_library_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "libsgl_ops.so"
    broken.write_bytes(b"not a library")
    text = python("import sgl_ops; print(sgl_ops.available().reason)", SGL_OPS_LIBRARY=str(broken))
    assert str(broken) in text
    assert "cannot be loaded" in text


def test_the_import_loads_nothing() -> None:
    assert (
        python("import sys, sgl_ops; print('torch' in sys.modules, sgl_ops.library._open.cache_info().currsize)")
        == "False 0"
    )


@pytest.mark.field_case("184")
@pytest.mark.parametrize("isa", ISAS[: 1 + ISAS.index(sgl_ops.isa())])
def test_a_lower_instruction_set_can_be_forced(isa: str) -> None:
    assert python("import sgl_ops; print(sgl_ops.isa())", SGL_CPU_ISA=isa) == isa


def test_an_unknown_instruction_set_is_noted() -> None:
    assert "not one of" in python("import sgl_ops; print(sgl_ops.available().note)", SGL_CPU_ISA="sse9")


def test_sources_key_changes_with_the_sources(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text("int a;")
    before = source_key(tmp_path)
    (tmp_path / "a.cpp").write_text("int b;")
    assert source_key(tmp_path) != before
    sources = source_dir()
    assert sources is not None
    assert any(source_key(sources) in str(p) for p in candidates()) or "SGL_OPS_LIBRARY" in os.environ


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_chunk_runs_exactly_once(threads: int) -> None:
    assert sgl_ops.set_threads(threads) == threads
    assert load().sgl_pool_selftest(20000) == 0
    assert sgl_ops.set_threads() >= 1


def test_a_forked_child_gets_its_own_pool() -> None:
    code = (
        "import os, sgl_ops; lib = sgl_ops.load(); sgl_ops.set_threads(3); lib.sgl_pool_selftest(10)\n"
        "pid = os.fork()\n"
        "if pid == 0: os._exit(int(lib.sgl_pool_selftest(50)))\n"
        "print(os.waitpid(pid, 0)[1], lib.sgl_pool_selftest(50))"
    )
    assert python(code) == "0 0"


def test_isa_objects_define_nothing_the_linker_could_share() -> None:
    """A weak symbol compiled for AVX-512 might be kept for everybody: then an AVX2 machine dies of SIGILL."""
    names = subprocess.run(
        ["nm", "-C", "--defined-only", sgl_ops.available().path], capture_output=True, text=True, check=False
    ).stdout
    weak = [line for line in names.splitlines() if len(line.split()) > 2 and line.split()[1] in "WVu"]
    assert not [line for line in weak if any(f" {isa}::" in line for isa in ISAS)]
