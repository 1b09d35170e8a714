"""``sgl doctor``: findings, probes and advice."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from sgl_core.cli.doctor import diagnose, main
from sgl_core.registry import Registries
from sgl_core.testing.fake_dists import fake_dist

SPECS = dedent("""
    from sgl_core.api import AttentionSpec, Facts, PlatformSpec
    HERE = PlatformSpec(name="here", target="json:dumps", probe="doctor_specs:probe_here")
    BAD = PlatformSpec(name="bad", target="json:dumps", probe="doctor_specs:probe_bad")
    NEEDY = AttentionSpec(name="needy", target="json:dumps", requires=("not-there>=1",))
    HEAVY = AttentionSpec(name="heavy", target="doctor_heavy:X")
    def probe_here(): return Facts(platform="here", device_name="Toy", device_count=2, device_memory_mib=1024)
    def probe_bad(): raise RuntimeError("the driver is too old")
""")


@pytest.fixture
def registries(site: Path) -> Registries:
    platforms = {"here": "doctor_specs:HERE", "bad": "doctor_specs:BAD"}
    attention = {"needy": "doctor_specs:NEEDY", "heavy": "doctor_specs:HEAVY"}
    modules = {"doctor_specs.py": SPECS, "doctor_heavy.py": "import absent_library\n"}
    fake_dist(site, "acme", "1.0", {"platforms": platforms, "attention": attention}, modules)
    return Registries.discover(path=[str(site)])


def test_probes_faults_and_advice(registries: Registries) -> None:
    data = diagnose(registries)
    platforms = {row["name"]: row for row in data["platforms"]}
    assert platforms["here"]["device"] == "2 x Toy, 1,024 MiB"
    assert platforms["bad"]["state"] == "failed"
    assert any("the driver is too old" in fault for fault in data["faults"])
    assert any("pip install 'not-there>=1'" in line for line in data["advice"])
    assert any("no model architecture is installed: install sgl-models" in line for line in data["advice"])
    assert any("uvloop" in line for line in data["advice"])
    json.dumps(data)


def test_loading_everything_finds_broken_targets(registries: Registries) -> None:
    assert not any("absent_library" in fault for fault in diagnose(registries)["faults"])
    data = diagnose(registries, load=True)
    row = next(row for row in data["entries"] if row["name"] == "heavy")
    assert row["state"] == "failed"
    assert "it needs the module 'absent_library'" in row["why"]


def test_conflicts_are_faults(site: Path, registries: Registries) -> None:
    fake_dist(site, "rival", "1.0", {"attention": {"needy": "doctor_specs:NEEDY"}})
    faults = diagnose(Registries.discover(path=[str(site)]))["faults"]
    assert sum("claimed by acme 1.0 and rival 1.0" in fault for fault in faults) == 1


def test_the_command_itself(registries: Registries, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    page = capsys.readouterr().out
    for heading in ("Packages", "Platforms", "Entries", "Wrong", "Advice"):
        assert heading in page
    assert main(["--json"]) == 1
    assert json.loads(capsys.readouterr().out)["python"]["version"]
    assert main(["--nonsense"]) == 2
