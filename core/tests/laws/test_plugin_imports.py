"""Law 2: a plugin imports sgl_core.api, its own modules, and what its pyproject.toml declares."""

from __future__ import annotations

import re
from pathlib import Path

from workspace_sources import dist_folders, imports, sources

FOR_TYPE_CHECKERS = ("sgl_core.plan", "sgl_core.registry")
"""Types that a plugin receives as arguments and may name in annotations; at run time it imports the api only."""


def package_of(folder: Path) -> str:
    """The import package of a dist."""
    (package,) = [path.name for path in (folder / "src").iterdir() if (path / "__init__.py").exists()]
    return package


def declared(folder: Path) -> set[str]:
    """The sgl packages among a dist's declared dependencies."""
    text = (folder / "pyproject.toml").read_text()
    return {name.replace("-", "_") for name in re.findall(r'"(sgl-[a-z]+)==', text)}


def test_plugins_import_the_public_api_only() -> None:
    found = []
    for source in sources():
        if source.dist.name == "core" or "testing" in source.path.parts:  # test support builds plans and models
            continue
        for module, line, types_only in imports(source.tree):
            inside = module == "sgl_core.api" or module.startswith("sgl_core.api.")
            if not module.startswith("sgl_core") or inside:
                continue
            if types_only and module.startswith(FOR_TYPE_CHECKERS):
                continue
            found.append(f"{source.label}:{line} imports {module}")
    assert found == []


def test_plugins_import_other_dists_only_as_declared() -> None:
    packages = {folder: package_of(folder) for folder in dist_folders()}
    ours = set(packages.values())
    found = []
    for source in sources():
        allowed = {packages[source.dist], *declared(source.dist)}
        for module, line, _ in imports(source.tree):
            top = module.partition(".")[0]
            if top in ours and top not in allowed:
                found.append(f"{source.label}:{line} imports {module}, which its pyproject.toml does not declare")
    assert found == []


def test_all_versions_move_together() -> None:
    versions = {
        folder.name: re.search(r'^version = "(.+)"', (folder / "pyproject.toml").read_text(), re.M)
        for folder in dist_folders()
    }
    assert len({match.group(1) for match in versions.values() if match}) == 1
