"""Host memory as this process may use it: the machine's, cut to the limits of its control groups. Imports no torch."""

from __future__ import annotations

from pathlib import Path


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def own_cgroups(root: Path = Path("/")) -> list[Path]:
    """The control-group folders that limit this process, the innermost first (version 2, and version 1's memory and cpu)."""
    mount = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    folders: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            base = mount
        elif {"memory", "cpu"} & set(controllers.split(",")):
            base = mount / controllers
        else:
            continue
        folder = base / path.lstrip("/")
        folders.extend([folder, *(parent for parent in folder.parents if base in (parent, *parent.parents))])
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def memory_limit(root: Path = Path("/")) -> int | None:
    """The smallest memory limit of the control groups in bytes, None without one."""
    limits = []
    for folder in own_cgroups(root):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _number(folder / name)
            if limit is not None and limit < 1 << 60:  # version 1 writes a huge number for "none"
                limits.append(limit)
    return min(limits, default=None)


def memory_used(root: Path = Path("/")) -> int:
    """Bytes that count against the tightest limit now, without the file cache that can be given back."""
    for folder in own_cgroups(root):
        used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes")
        if used is None:
            continue
        try:
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):
            stat = {}
        return max(0, used - int(stat.get("inactive_file", 0)))
    return 0


def _meminfo(root: Path) -> dict[str, int]:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return {}
    fields = (line.split() for line in lines)
    return {parts[0].rstrip(":"): int(parts[1]) * 1024 for parts in fields if len(parts) >= 2 and parts[1].isdigit()}


def total_memory(root: Path = Path("/")) -> int:
    """Bytes of memory this process may use at most; 0 where the system does not say."""
    total = _meminfo(root).get("MemTotal", 0)
    limit = memory_limit(root)
    return min(total, limit) if limit is not None and total else total or limit or 0


def available_memory(root: Path = Path("/")) -> int:
    """Bytes this process could still take without pushing others out; 0 where the system does not say."""
    available = _meminfo(root).get("MemAvailable", 0)
    limit = memory_limit(root)
    if limit is None:
        return available
    left = max(0, limit - memory_used(root))
    return min(available, left) if available else left


def own_memory(root: Path = Path("/")) -> int:
    """Bytes that this process holds and that no file backs; 0 where the system does not say. Others do not disturb it."""
    try:
        lines = (root / "proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    fields = (line.split() for line in lines)
    return sum(int(parts[1]) * 1024 for parts in fields if parts and parts[0] in ("RssAnon:", "RssShmem:"))
