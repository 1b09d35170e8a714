"""docs/api.md names the versions of clients that are installed."""

from __future__ import annotations

from pathlib import Path

from environments import names, versions

ROOT = Path(__file__).parents[2]
OFFICIAL = ("openai", "anthropic", "ollama")


def test_the_page_names_the_versions() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    constraints = (ROOT / "requirements" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    wanted = dict(line.split("==") for line in constraints if line.split("==")[0] in OFFICIAL)
    for name in names():
        wanted |= versions(name)
    assert len(wanted) == 11
    for package, version in wanted.items():
        assert f"| {package} | {version} |" in page
