"""What is refused before a device is probed or a model fetched. Field cases 191 and 193."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgl_core.api import AttentionSpec
from sgl_core.config.server_args import ServerArgs
from sgl_core.registry import DuplicateNames, Registries, RegistryError, Unavailable
from sgl_core.registry.lock import LOCK_FILE, LockMismatch, write_lock
from sgl_core.registry.preflight import preflight
from sgl_core.testing.fake_dists import fake_dist

pytestmark = pytest.mark.field_case("191", "193")

TARGET = "json:dumps"


def test_a_choice_that_cannot_load_says_what_to_install() -> None:
    registries = Registries()
    registries.attention.add(AttentionSpec(name="plain", target=TARGET))
    registries.attention.add(AttentionSpec(name="needy", target=TARGET, requires=("fast-kernels>=2",)), dist="vendor")
    preflight(registries, ServerArgs.of())
    preflight(registries, ServerArgs.of(attention_backend="plain"))
    preflight(registries, ServerArgs.of(attention_backend="nobody's"))
    with pytest.raises(Unavailable, match=r"--attention-backend needy \(vendor\) .*pip install 'fast-kernels>=2'"):
        preflight(registries, ServerArgs.of(attention_backend="needy"))


def test_a_conflict_stops_even_where_nobody_asked_for_the_name(site: Path) -> None:
    for name in ("acme", "rival"):
        fake_dist(site, name, "1.0", {"attention": {"x": "a:B"}})
    with pytest.raises(DuplicateNames, match=r"acme 1\.0 and rival 1\.0"):
        preflight(Registries.discover(path=[str(site)]), ServerArgs.of())


def test_the_lock_is_insisted_on(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fake_dist(site, "acme", "1.0", {"attention": {"x": "a:B"}})
    registries = Registries.discover(path=[str(site)])
    with pytest.raises(RegistryError, match=r"no lock file .*sgl plugin lock"):
        preflight(registries, ServerArgs.of(locked=True))
    write_lock(registries, tmp_path / LOCK_FILE)
    preflight(registries, ServerArgs.of(locked=True))
    fake_dist(site, "late", "1.0", {"attention": {"y": "a:B"}})
    later = Registries.discover(path=[str(site)])
    preflight(later, ServerArgs.of())
    with pytest.raises(LockMismatch, match=r"late 1\.0 is installed but not locked"):
        preflight(later, ServerArgs.of(locked=True))
