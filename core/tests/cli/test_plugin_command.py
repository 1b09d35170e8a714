"""``sgl plugin``: list, show, check and lock."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from sgl_core.cli.plugin import main
from sgl_core.testing.fake_dists import fake_dist

SPECS = dedent("""
    from sgl_core.api import AttentionSpec, Option
    GOOD = AttentionSpec(
        name="acme_attn", target="json:dumps", summary="fast", aliases=("acme",),
        options=(Option(name="acme_attn.block", type=int, default=64, help="Block size."),),
    )
    LATER = AttentionSpec(name="acme_later", requires=("not-there",), target="json:dumps")
""")


@pytest.fixture
def acme(site: Path) -> Path:
    entries = {"acme_attn": "acme_list_specs:GOOD", "acme_later": "acme_list_specs:LATER", "acme_gone": "nowhere:X"}
    fake_dist(site, "acme", "1.0", {"attention": entries}, {"acme_list_specs.py": SPECS})
    return site


def printed(capsys: pytest.CaptureFixture[str], *argv: str, status: int = 0) -> str:
    assert main(argv) == status
    captured = capsys.readouterr()
    return captured.err if status else captured.out


def test_list_as_json(acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(capsys, "list", "--json", "--dist", "acme"))
    rows = {row["name"]: row for row in data["entries"]}
    assert rows["acme_attn"] == {
        "registry": "attention",
        "name": "acme_attn",
        "dist": "acme",
        "version": "1.0",
        "state": "ok",
        "why": "",
        "summary": "fast",
        "aliases": ["acme"],
        "target": "json:dumps",
    }
    assert rows["acme_later"]["state"] == "unavailable"
    assert "pip install not-there" in rows["acme_later"]["why"]
    assert rows["acme_gone"]["state"] == "failed"
    assert [dist["name"] for dist in data["dists"]] == ["acme"]


def test_list_for_people_and_by_registry(acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = printed(capsys, "list", "--registry", "attention")
    assert "acme_attn" in page
    assert "acme 1.0" in page
    assert "commands" not in page
    assert "did you mean attention" in printed(capsys, "list", "--registry", "atention", status=1)
    assert "did you mean acme" in printed(capsys, "list", "--dist", "acmee", status=1)


def test_conflicts_and_exclusions_are_listed(acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake_dist(acme, "rival", "2.0", {"attention": {"acme_attn": "acme_list_specs:GOOD"}})

    def states(*argv: str) -> dict[str, str]:
        data = json.loads(printed(capsys, "list", "--json", "--registry", "attention", *argv))
        return {row["dist"]: row["state"] for row in data["entries"] if row["name"] == "acme_attn"}

    assert states() == {"acme": "conflict", "rival": "conflict"}
    assert states("--prefer", "attention.acme_attn=rival") == {"acme": "passed over", "rival": "ok"}
    assert states("--plugins-deny", "rival") == {"acme": "ok", "rival": "excluded"}
    assert states("--safe-mode") == {"acme": "excluded", "rival": "excluded"}


def test_show(acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = json.loads(printed(capsys, "show", "acme", "--json"))
    assert row["group"] == "sgl.attention.v1"
    assert row["spec"]["options"][0]["name"] == "acme_attn.block"
    page = printed(capsys, "show", "attention.acme_attn")
    assert "--plugin-option acme_attn.block=int (default 64)  Block size." in page
    assert "did you mean acme_attn" in printed(capsys, "show", "acme_atn", status=1)


def test_check(acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "acme"]) == 1
    assert "attention.acme_gone" in capsys.readouterr().out


def test_lock_and_check(acme: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = str(tmp_path / "lock.json")
    assert json.loads(printed(capsys, "lock", "--file", lock, "--json"))["dists"]["acme"]["version"] == "1.0"
    assert "nothing differs" in printed(capsys, "lock", "--check", "--file", lock)
    (acme / "acme_list_specs.py").write_text(SPECS + "# changed\n")
    assert main(["lock", "--check", "--file", lock]) == 1
    assert "acme_list_specs.py was changed after installation" in capsys.readouterr().out


def test_wrong_command_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lst"]) == 2
    assert "No such command" in capsys.readouterr().err
    assert main(["--help"]) == 0
    assert "List, show, check and lock" in capsys.readouterr().out
