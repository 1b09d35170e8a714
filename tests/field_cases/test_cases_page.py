"""docs/field-cases.md says where each case went, and the areas that are done stay done."""

from __future__ import annotations

import cases_page
import pytest

DONE = ("A1", "A2", "B", "C1", "C2", "D", "E", "F", "G", "L", "O")


def test_the_page_is_current() -> None:
    written = (cases_page.ROOT / "docs" / "field-cases.md").read_text(encoding="utf-8")
    assert cases_page.page(cases_page.marked()) == written, (
        "run: python tests/field_cases/cases_page.py docs/field-cases.md"
    )


def test_every_case_of_the_areas_done_has_a_test_or_a_reason() -> None:
    tests = cases_page.marked()
    open_cases = [case.number for case in cases_page.CASES if case.area in DONE and not case.unmet]
    assert [number for number in open_cases if number not in tests] == []


def test_marks_are_found_wherever_they_stand() -> None:
    source = (
        "rows = [pytest.param(1, marks=pytest.mark.field_case('67'))]\n"
        "@pytest.mark.field_case('1', '2')\nasync def test_a(): ...\n"
        "class TestB:\n    @pytest.mark.field_case('3')\n    def test_c(self): ...\n"
    )
    assert list(cases_page.marks(source)) == [("67", ""), ("1", "::test_a"), ("2", "::test_a"), ("3", "::TestB")]
    with pytest.raises(ValueError, match="9999"):
        cases_page.page({"9999": ["x"]})
