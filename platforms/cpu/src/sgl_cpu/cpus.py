"""How many CPUs this process may use: its affinity mask, cut to the quotas of its control groups."""

from __future__ import annotations

import math
import os
from pathlib import Path

from sgl_torch.host_memory import own_cgroups


def allowed_cpus(root: Path = Path("/")) -> int:
    """CPUs of the affinity mask, at most the control groups' quota rounded up; at least 1."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        count = os.cpu_count() or 1
    quota = cpu_quota(root)
    return max(1, min(count, math.ceil(quota))) if quota is not None else count


def cpu_quota(root: Path = Path("/")) -> float | None:
    """The smallest CPU quota of the control groups in CPUs (1.5 = one and a half), None without one."""
    quotas = []
    for folder in own_cgroups(root):
        quota = _version2(folder) or _version1(folder)
        if quota is not None:
            quotas.append(quota)
    return min(quotas, default=None)


def _version2(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return int(quota) / int(period) if quota.isdigit() else None


def _version1(folder: Path) -> float | None:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        period = int((folder / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
    return quota / period if quota > 0 else None
