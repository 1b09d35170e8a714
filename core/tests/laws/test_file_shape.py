"""Law 6 and the house style: small files with one subject, no drawers for oddments, a docstring at the top."""

from __future__ import annotations

import ast

from workspace_sources import dist_folders, sources

MOST_LINES = 500
DRAWERS = frozenset({"utils.py", "util.py", "common.py", "helpers.py", "helper.py", "misc.py", "shared.py", "stuff.py"})


def test_no_file_is_a_room_too_big() -> None:
    paths = [path for folder in dist_folders() for room in ("src", "tests") for path in (folder / room).rglob("*.py")]
    assert len(paths) > 100
    long = {str(path): count for path in paths if (count := path.read_text(encoding="utf-8").count("\n")) > MOST_LINES}
    assert long == {}


def test_no_drawers() -> None:
    assert [source.label for source in sources() if source.path.name in DRAWERS] == []


def test_every_module_says_what_it_owns() -> None:
    assert [source.label for source in sources() if not ast.get_docstring(source.tree)] == []


def test_no_top_level_package_takes_a_foreign_name() -> None:
    taken = {"sgl", "sgl_kernel", "sgl_kernels"}
    found = [path.name for folder in dist_folders() for path in (folder / "src").iterdir() if path.name in taken]
    assert found == []
