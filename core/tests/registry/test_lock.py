"""The plugin lock: what it holds and what it notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgl_core.registry import Registries, RegistryError
from sgl_core.registry.lock import LockMismatch, differences, make_lock, read_lock, verify_lock, write_lock
from sgl_core.testing.fake_dists import fake_dist


def install(site: Path, version: str = "1.0", body: str = "X = 1\n") -> Registries:
    fake_dist(site, "acme", version, {"attention": {"a": "acme_lock:X"}}, {"acme_lock.py": body})
    return Registries.discover(path=[str(site)])


def test_an_unchanged_installation_passes(site: Path, tmp_path: Path) -> None:
    registries = install(site)
    lock = tmp_path / "lock"
    assert write_lock(registries, lock)["dists"]["acme"]["version"] == "1.0"
    verify_lock(registries, lock)


def test_another_version_is_noticed(site: Path, tmp_path: Path) -> None:
    lock = make_lock(install(site))
    assert differences(install(tmp_path / "other", "1.1"), lock) == ["acme is locked at 1.0, 1.1 is installed"]


def test_other_contents_of_the_same_version_are_noticed(site: Path, tmp_path: Path) -> None:
    lock = make_lock(install(site))
    found = differences(install(tmp_path / "other", body="X = 2\n"), lock)
    assert found == ["acme 1.0 has the locked version but other contents (RECORD differs)"]


def test_a_changed_file_and_a_missing_file_are_noticed(site: Path) -> None:
    registries = install(site)
    lock = make_lock(registries)
    (site / "acme_lock.py").write_text("X = 3\n")
    assert differences(registries, lock) == ["acme 1.0: acme_lock.py was changed after installation"]
    assert differences(registries, lock, files=False) == []
    (site / "acme_lock.py").unlink()
    assert differences(registries, lock) == ["acme 1.0: acme_lock.py is missing"]


def test_new_and_vanished_plugins_are_noticed(site: Path, tmp_path: Path) -> None:
    registries = install(site)
    lock = tmp_path / "lock"
    write_lock(Registries(), lock)
    with pytest.raises(LockMismatch, match=r"acme 1\.0 is installed but not locked.*sgl plugin lock"):
        verify_lock(registries, lock)
    assert differences(Registries(), make_lock(registries)) == ["acme 1.0 is locked but not installed (or excluded)"]


@pytest.mark.parametrize(("text", "words"), [(None, "no lock file"), ("{", "cannot read"), ("{}", "not a plugin lock")])
def test_bad_lock_files(tmp_path: Path, text: str | None, words: str) -> None:
    lock = tmp_path / "lock"
    if text is not None:
        lock.write_text(text)
    with pytest.raises(RegistryError, match=words):
        read_lock(lock)
