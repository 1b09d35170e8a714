"""Laws 3, 4 and 5: no global that holds configuration or platform, no Enum that closes a list, nothing that patches."""

from __future__ import annotations

import ast

from workspace_sources import sources

HOLDERS = frozenset(
    [
        "Registries",
        "Registry",
        "ServerArgs",
        "Config",
        "Plan",
        "Facts",
        "ModelInfo",
        "PlatformChoice",
        "discover",
        "from_sources",
        "select_platform",
        "make_plan",
        "resolve",
    ]
)
ENUMS = frozenset(["Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"])
CLOSED_ENUMS: frozenset[str] = frozenset()
"""Enums of closed facts (phase, role), as ``file:class``; there is none so far."""


def called_name(node: ast.expr | None) -> str:
    """The last name of what is called, or ""."""
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    if isinstance(function, ast.Attribute):
        owner = function.value.id if isinstance(function.value, ast.Name) else ""
        return owner if owner in HOLDERS else function.attr
    return function.id if isinstance(function, ast.Name) else ""


def test_no_module_global_holds_configuration_or_platform() -> None:
    found = []
    for source in sources():
        for node in source.tree.body:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and called_name(node.value) in HOLDERS:
                found.append(f"{source.label}:{node.lineno} {ast.unparse(node)[:80]}")
    assert found == []


def test_no_function_rebinds_a_module_global() -> None:
    found = [
        f"{source.label}:{node.lineno} global {', '.join(node.names)}"
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Global)
    ]
    assert found == []


def test_no_enum_closes_what_others_extend() -> None:
    found = []
    for source in sources():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                if bases & ENUMS and f"{source.label}:{node.name}" not in CLOSED_ENUMS:
                    found.append(f"{source.label}:{node.lineno} {node.name}")
    assert found == []


def test_nothing_writes_attributes_of_foreign_modules() -> None:
    """No patch API: setattr on a module that was looked up by name is how monkeypatching systems work."""
    found = []
    for source in sources():
        modules = {
            alias.asname or alias.name.partition(".")[0]
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        for node in ast.walk(source.tree):
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in targets:
                if (
                    isinstance(target, ast.Attribute)
                    and isinstance(target.value, ast.Name)
                    and target.value.id in modules
                ):
                    found.append(f"{source.label}:{node.lineno} {ast.unparse(target)}")
    assert found == []
