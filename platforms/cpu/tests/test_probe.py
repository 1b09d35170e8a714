"""The probe: feature words, memory and CPU counts from made-up system folders, and this machine without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sgl_cpu.cpus import allowed_cpus, cpu_quota
from sgl_cpu.probe import feature_words, probe, read_cpuinfo
from sgl_cpu.specs import CPU

X86 = "processor : 0\nmodel name : Fast Processor 9\nflags : fpu sse avx avx2 fma f16c avx512f amx_tile amx_bf16 lm\n\nprocessor : 1\nflags : fpu\n"


def machine(root: Path, files: dict[str, str]) -> Path:
    base = {
        "proc/cpuinfo": X86,
        "proc/meminfo": "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n",
        "proc/self/cgroup": "0::/job/inner\n",
    }
    for name, text in (base | files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_first_processor_counts(tmp_path: Path) -> None:
    name, flags = read_cpuinfo(machine(tmp_path, {}))
    assert name == "Fast Processor 9"
    assert {"avx2", "avx512f"} <= flags


def test_feature_words() -> None:
    flags = frozenset({"avx2", "amx_tile", "sse", "asimd"})
    assert feature_words("x86_64", flags) == {"avx2", "amx_tile", "amx"}
    assert feature_words("aarch64", frozenset({"asimd", "i8mm", "fp"})) == {"arm64", "neon", "i8mm"}
    assert feature_words("x86_64", frozenset()) == frozenset()


def test_facts_honour_control_groups(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/job/memory.max": f"{256 << 20}", "sys/fs/cgroup/job/inner/cpu.max": "50000 100000"}
    facts = probe(machine(tmp_path, files))
    assert (facts.platform, facts.device, facts.device_name) == ("cpu", "cpu", "Fast Processor 9")
    assert facts.host_memory_mib == facts.device_memory_mib == 256
    assert facts.cpu_count == 1
    assert facts.device_count == 0
    assert facts.libraries["torch"]


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"sys/fs/cgroup/job/cpu.max": "max 100000"}, None),
        ({"sys/fs/cgroup/job/cpu.max": "150000 100000", "sys/fs/cgroup/job/inner/cpu.max": "max 100000"}, 1.5),
        ({"sys/fs/cgroup/job/cpu.max": "20000 100000", "sys/fs/cgroup/job/inner/cpu.max": "900000 100000"}, 0.2),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/job\n",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "300000",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
            },
            3.0,
        ),
    ],
)
def test_cpu_quota(files: dict[str, str], quota: float | None, tmp_path: Path) -> None:
    root = machine(tmp_path, files)
    assert cpu_quota(root) == quota
    assert allowed_cpus(root) >= 1


def test_affinity_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 3, 5, 7})
    assert allowed_cpus(machine(tmp_path / "a", {})) == 4
    limited = machine(tmp_path / "b", {"sys/fs/cgroup/job/cpu.max": "250000 100000"})
    assert allowed_cpus(limited) == 3


def test_a_machine_that_says_nothing(tmp_path: Path) -> None:
    facts = probe(tmp_path)
    assert facts.host_memory_mib is None
    assert facts.features <= {"arm64"}
    assert facts.cpu_count >= 1


def test_this_machine_without_torch() -> None:
    code = (
        "import sys; from sgl_cpu.probe import probe; facts = probe(); "
        "assert 'torch' not in sys.modules, 'the probe imported torch'; print(facts.to_json())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert '"platform": "cpu"' in done.stdout


def test_spec_ranks_the_torch_backend() -> None:
    assert CPU.probe_order == 0
    assert "torch_native" in CPU.rank["attention"]
