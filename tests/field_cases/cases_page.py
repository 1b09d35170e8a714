"""Writes docs/field-cases.md from the tests' ``field_case`` marks: ``python tests/field_cases/cases_page.py docs/field-cases.md``."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from reported_cases import AREAS, CASES, Case

ROOT = Path(__file__).parents[2]
FOLDERS = ("core/tests", "plugins/*/tests", "platforms/*/tests", "kernels/tests", "tests")
HEAD = """# Field cases

Faults that users of LLM servers reported, tried on this one. The numbers are those of the collection we work from, which skips some. A test
names what it tries with `@pytest.mark.field_case("5")`; this page is written from those marks by `make docs`.
"""
Tests = dict[str, list[str]]


def marked() -> Tests:
    """Case number to the ids of the tests that carry its mark."""
    found: Tests = {}
    for folder in FOLDERS:
        for path in sorted(file for top in ROOT.glob(folder) for file in top.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "field_case(" in text:
                for number, name in marks(text):
                    found.setdefault(number, []).append(f"{path.relative_to(ROOT)}{name}")
    return {number: list(dict.fromkeys(tests)) for number, tests in found.items()}


def marks(source: str) -> Iterator[tuple[str, str]]:
    """(case number, ``::test``) of every mark in a module; ``""`` for marks outside a test, such as on a list of parameters."""
    tree = ast.parse(source)
    for node in tree.body:
        name = f"::{node.name}" if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else ""
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "field_case":
                yield from ((str(word.value), name) for word in call.args if isinstance(word, ast.Constant))


def page(tests: Tests) -> str:
    """The whole page. Raises ValueError for a mark whose number is no case."""
    unknown = sorted(set(tests) - {case.number for case in CASES})
    if unknown:
        raise ValueError(f"tests are marked with cases that do not exist: {', '.join(unknown)}")
    return "\n".join(_page(tests))


def _page(tests: Tests) -> Iterator[str]:
    yield HEAD
    met = sum(case.number in tests for case in CASES)
    yield f"{met} of {len(CASES)} cases are tests that pass."
    for area, title in AREAS.items():
        yield f"\n## {area}. {title}\n"
        yield "| case | | where |"
        yield "|---|---|---|"
        for case in CASES:
            if case.area == area:
                yield f"| {case.number} | {case.title} | {_where(case, tests)} |"
    yield ""


def _where(case: Case, tests: Tests) -> str:
    if case.number in tests:
        return "<br>".join(f"`{test}`" for test in tests[case.number])
    return f"not met: {case.unmet}" if case.unmet else "no test yet"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(marked()), encoding="utf-8")
