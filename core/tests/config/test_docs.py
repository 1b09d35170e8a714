"""The page of all fields is generated from the declarations and up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgl_core.config import explain_docs
from sgl_core.config.docs import MARKER, main, tables, updated
from sgl_core.config.fields import fields
from sgl_core.registry import Registries

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text()
    assert updated(text) == text, "run: python -m sgl_core.config.docs docs/configuration.md"


def test_every_flag_is_on_the_page() -> None:
    text = tables()
    for declared in fields().values():
        if declared.cli:
            assert f"`{declared.flag}`" in text, declared.flag


def test_the_hand_written_part_is_kept(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"By hand.\n\n{MARKER}\nold\n")
    assert main([str(page)]) == 0
    assert page.read_text().startswith(f"By hand.\n\n{MARKER}\n")
    assert "old\n" not in page.read_text().splitlines()
    with pytest.raises(ValueError, match="marker"):
        updated("nothing")


def test_worked_examples_can_be_made_and_name_reasons() -> None:
    registries = Registries.discover()
    sections = list(explain_docs.examples(registries))
    assert len(sections) == 10
    for text in sections:
        rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| field")]
        assert all(line.split(" | ")[-1].strip(" |") for line in rows), text
    with pytest.raises(ValueError, match="marker"):
        explain_docs.updated("nothing", registries)
