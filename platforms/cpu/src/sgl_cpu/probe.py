"""The facts of a CPU machine, in a few milliseconds and without torch."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sgl_core.api import Facts
from sgl_torch.host_memory import total_memory

from .cpus import allowed_cpus

_X86_WORDS = frozenset(
    [
        "avx",
        "avx2",
        "fma",
        "f16c",
        "avx_vnni",
        "avx512f",
        "avx512bw",
        "avx512vl",
        "avx512dq",
        "avx512_vnni",
        "avx512_bf16",
        "avx512_fp16",
        "amx_tile",
        "amx_int8",
        "amx_bf16",
        "amx_fp16",
    ]
)
_ARM_WORDS = {"asimd": "neon", "asimddp": "dotprod", "sve": "sve", "sve2": "sve2", "bf16": "bf16", "i8mm": "i8mm"}
_LIBRARIES = ("torch", "transformers", "sgl-ops", "xgrammar", "llguidance", "granian")


def probe(root: Path = Path("/")) -> Facts:
    """Every machine has a CPU, so this always finds one. ``root`` is where /proc and /sys are read (for tests)."""
    machine = platform.machine()
    name, flags = read_cpuinfo(root)
    memory_mib = total_memory(root) / (1 << 20)
    return Facts(
        platform="cpu",
        name=platform.node(),
        device="cpu",
        device_name=name or machine,
        device_count=0,
        device_memory_mib=memory_mib or None,
        host_memory_mib=memory_mib or None,
        cpu_count=allowed_cpus(root),
        libraries=installed_libraries(),
        features=feature_words(machine, flags),
    )


def read_cpuinfo(root: Path = Path("/")) -> tuple[str, frozenset[str]]:
    """(model name, flags) of the first processor in /proc/cpuinfo; empty where there is none."""
    try:
        lines = (root / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "", frozenset()
    fields: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    flags = fields.get("flags") or fields.get("Features") or ""
    return fields.get("model name", ""), frozenset(flags.split())


def feature_words(machine: str, flags: frozenset[str]) -> frozenset[str]:
    """The feature words of :class:`Facts` for a processor's flags; ``amx`` stands for usable AMX tiles."""
    if machine.lower() in ("aarch64", "arm64"):
        return frozenset({"arm64"} | {word for flag, word in _ARM_WORDS.items() if flag in flags})
    words = set(flags & _X86_WORDS)
    if "amx_tile" in words:
        words.add("amx")
    return frozenset(words)


def installed_libraries() -> dict[str, str]:
    """Versions of installed packages that matter to a choice, without importing them."""
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
