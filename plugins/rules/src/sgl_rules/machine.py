"""Questions that rules ask about the machine, answered from Facts: device generations, switches, libraries."""

from __future__ import annotations

from sgl_core.api.facts import Facts

_TRUE = frozenset({"1", "true", "yes", "y"})


def version_at_least(version: str, *minimum: int) -> bool:
    """Whether a dotted version is at least ``minimum``; an empty version is not."""
    parts = [int(part) for part in version.split(".") if part.isdigit()]
    return bool(parts) and tuple(parts) >= minimum


def is_cuda(facts: Facts) -> bool:
    """An NVIDIA GPU."""
    return facts.platform == "cuda"


def is_rocm(facts: Facts) -> bool:
    """An AMD GPU."""
    return facts.platform == "rocm"


def is_xpu(facts: Facts) -> bool:
    """An Intel GPU."""
    return facts.platform == "xpu"


def is_npu(facts: Facts) -> bool:
    """An Ascend NPU."""
    return facts.platform == "npu"


def is_cpu(facts: Facts) -> bool:
    """A machine that serves from the CPU engine (not a GPU machine asked for ``--device cpu``)."""
    return facts.platform == "cpu"


def is_musa(facts: Facts) -> bool:
    """A Moore Threads GPU."""
    return facts.platform == "musa"


def is_apple(facts: Facts) -> bool:
    """Apple silicon, whichever runtime drives it."""
    return facts.platform in ("mps", "mlx") or facts.device == "mps"


def uses_mlx(facts: Facts) -> bool:
    """Apple silicon driven by the MLX runtime."""
    return facts.platform == "mlx" or facts.has("mlx")


def has_amx(facts: Facts) -> bool:
    """CPU matrix tiles, which the native CPU attention needs."""
    return facts.has("amx")


def is_sm90(facts: Facts) -> bool:
    """Hopper with the CUDA 12.3 its kernels were built for."""
    return is_cuda(facts) and facts.arch // 10 == 9 and version_at_least(facts.cuda_version, 12, 3)


def is_sm100(facts: Facts) -> bool:
    """Data-centre Blackwell (SM100, SM103) with CUDA 12.8."""
    return is_cuda(facts) and facts.arch // 10 == 10 and version_at_least(facts.cuda_version, 12, 8)


def is_sm110(facts: Facts) -> bool:
    """Thor-class Blackwell with CUDA 12.8."""
    return is_cuda(facts) and facts.arch // 10 == 11 and version_at_least(facts.cuda_version, 12, 8)


def is_sm120(facts: Facts) -> bool:
    """Workstation Blackwell (SM120, SM121) with CUDA 12.8."""
    return is_cuda(facts) and facts.arch // 10 == 12 and version_at_least(facts.cuda_version, 12, 8)


def is_blackwell(facts: Facts) -> bool:
    """Any Blackwell."""
    return is_sm100(facts) or is_sm110(facts) or is_sm120(facts)


def is_gfx95(facts: Facts) -> bool:
    """CDNA 4."""
    return is_rocm(facts) and facts.arch == 95


def has_library(facts: Facts, name: str) -> bool:
    """Whether an importable package that matters to a choice is installed."""
    return name in facts.libraries


def switch(facts: Facts, name: str, default: bool = False) -> bool:
    """A boolean environment switch."""
    value = facts.env.get(name)
    return default if value is None else value.strip().lower() in _TRUE


def number(facts: Facts, name: str, default: int) -> int:
    """An integer environment setting."""
    value = facts.env.get(name)
    return default if value is None or not value.strip() else int(value)


def uses_aiter(facts: Facts) -> bool:
    """The AITER kernels are switched on."""
    return switch(facts, "SGLANG_USE_AITER")
