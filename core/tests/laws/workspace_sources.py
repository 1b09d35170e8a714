"""The source files of every dist in the workspace, for the law tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROOMS = ("core", "plugins/*", "platforms/*", "kernels")


@dataclass(frozen=True)
class Source:
    """One Python file under a dist's src folder. ``dist`` is the dist's folder, relative to the workspace."""

    dist: Path
    path: Path

    @property
    def label(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def tree(self) -> ast.Module:
        return parsed(self.path)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def dist_folders() -> list[Path]:
    """Every dist of the workspace: a folder of a room with a pyproject.toml."""
    return sorted(folder for room in ROOMS for folder in ROOT.glob(room) if (folder / "pyproject.toml").is_file())


def sources() -> list[Source]:
    """Every module of every dist."""
    return [Source(folder, path) for folder in dist_folders() for path in sorted((folder / "src").rglob("*.py"))]


def imports(tree: ast.Module) -> Iterator[tuple[str, int, bool]]:
    """(module, line, only for type checkers) of every import statement, also inside functions; relative ones are left out."""
    checked_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, id(node) in checked_only
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno, id(node) in checked_only
