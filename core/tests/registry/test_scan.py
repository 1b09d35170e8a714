"""The text scan: what it finds, what hides what, and that nothing is imported."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from sgl_core.registry.scan import canonical, parse_entry_points, scan
from sgl_core.testing.fake_dists import fake_dist, fake_dists


def test_reads_entries_with_owner_and_version(site: Path) -> None:
    fake_dist(site, "Acme_Attention", "1.2", {"attention": {"acme": "acme.specs:ACME"}})
    (entry,) = scan([str(site)]).entries
    assert (entry.group, entry.name, entry.value) == ("sgl.attention.v1", "acme", "acme.specs:ACME")
    assert (entry.dist.name, entry.dist.version) == ("acme-attention", "1.2")


def test_lists_every_installed_distribution_but_only_sgl_entries(site: Path) -> None:
    fake_dist(site, "plain", "3.0", {"console_scripts.x": {"plain": "plain:main"}})
    found = scan([str(site)])
    assert found.entries == []
    assert found.installed["plain"].version == "3.0"


def test_the_first_folder_hides_later_ones(tmp_path: Path) -> None:
    fake_dist(tmp_path / "a", "acme", "2.0")
    fake_dist(tmp_path / "b", "acme", "1.0", {"attention": {"acme": "x:Y"}})
    found = scan([str(tmp_path / "a"), str(tmp_path / "b")])
    assert found.installed["acme"].version == "2.0"
    assert found.entries == []


def test_a_folder_named_twice_counts_once(site: Path) -> None:
    fake_dist(site, "acme", "1.0", {"attention": {"acme": "x:Y"}})
    assert len(scan([str(site), str(site) + os.sep, f"{site}/../{site.name}"]).entries) == 1


def test_the_working_directory_is_not_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_dist(tmp_path, "evil", "1.0", {"attention": {"evil": "evil:SPEC"}})
    monkeypatch.chdir(tmp_path)
    for entry in ("", ".", str(tmp_path)):
        monkeypatch.setattr(sys, "path", [entry])
        assert scan().entries == []
    assert len(scan([str(tmp_path)]).entries) == 1


def test_a_site_packages_folder_is_scanned_even_from_inside(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_dist(site, "acme", "1.0", {"attention": {"acme": "x:Y"}})
    monkeypatch.chdir(site)
    monkeypatch.setattr(sys, "path", [str(site)])
    assert [entry.name for entry in scan().entries] == ["acme"]


def test_egg_info_folders_are_read(site: Path) -> None:
    for name, text in {
        "old_style.egg-info": "Name: old-style\nVersion: 0.9\n",
        "older-0.8-py3.11.egg-info": "",
    }.items():
        (site / name).mkdir()
        (site / name / "PKG-INFO").write_text(text)
        (site / name / "entry_points.txt").write_text("[sgl.ops.v1]\nx = m:X\n")
    found = scan([str(site)])
    assert {entry.dist.name: entry.dist.version for entry in found.entries} == {"old-style": "0.9", "older": "0.8"}


def test_zip_archives_are_read_through_importlib_metadata(tmp_path: Path) -> None:
    archive = tmp_path / "bundle.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped-1.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: zipped\nVersion: 1.5\n")
        file.writestr("zipped-1.5.dist-info/entry_points.txt", "[sgl.attention.v1]\nz = z:Z\n")
    (entry,) = scan([str(archive)]).entries
    assert (entry.name, str(entry.dist)) == ("z", "zipped 1.5")


def test_two_metadata_folders_of_one_distribution_are_reported(site: Path) -> None:
    old = fake_dist(site, "acme", "1.0", {"attention": {"old": "x:Y"}})
    fake_dist(site, "acme", "2.0", {"attention": {"new": "x:Y"}})
    os.utime(old, (1, 1))
    found = scan([str(site)])
    assert [entry.name for entry in found.entries] == ["new"]
    assert "installed more than once" in found.problems[0]
    assert "1.0, 2.0" in found.problems[0]


def test_unreadable_metadata_is_a_problem_not_a_crash(site: Path) -> None:
    info = fake_dist(site, "broken", "1.0", {"attention": {"x": "x:Y"}})
    (info / "entry_points.txt").write_bytes(b"[sgl.attention.v1]\nx = \xff\xfe:Y\n")
    fake_dist(site, "good", "1.0", {"attention": {"y": "x:Y"}})
    found = scan([str(site), str(site / "missing")])
    assert [entry.name for entry in found.entries] == ["y"]
    assert "broken 1.0" in found.problems[0]


def test_parses_comments_spaces_and_extras() -> None:
    text = "# c\n[console_scripts]\nsgl = a:b\n\n[ sgl.ops.v1 ]\n; c\n a=b.c:D [extra]\nno_value\nx = y : z\n"
    assert list(parse_entry_points(text)) == [("sgl.ops.v1", "a", "b.c:D"), ("sgl.ops.v1", "x", "y : z")]


def test_canonical_names() -> None:
    assert canonical("Acme_Attention.Fast") == "acme-attention-fast"


def test_scanning_many_distributions_imports_none(site: Path) -> None:
    fake_dists(site, 50)
    assert len(scan([str(site)]).entries) == 100
    assert not any(name.startswith("fake_plugin_") for name in sys.modules)
