"""What a run cost the machine, read from /proc: CPU time of the server's processes, of this client and of everybody else."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """CPU seconds so far: of all, of a process tree, of this process; and the tree's memory now.

    ``rss_mb`` adds up what each process has resident; ``pss_mb`` counts a page that several share once (0 where unreadable).
    """

    busy: float
    tree: float
    own: float
    rss_mb: float
    pss_mb: float

    @classmethod
    def take(cls, pid: int | None) -> Snapshot | None:
        """None where /proc cannot be read (other systems) or the process is gone."""
        try:
            fields = [int(word) for word in (_PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
            tick = os.sysconf("SC_CLK_TCK")
            spent = rss = pss = 0.0
            for member in tree(pid) if pid else ():
                words = _stat(member)
                spent += (int(words[11]) + int(words[12])) / tick
                rss += int(words[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6
                pss += _pss(member)
        except (OSError, ValueError, IndexError):
            return None
        own = os.times()
        return cls((sum(fields) - fields[3] - fields[4] - fields[7]) / tick, spent, own.user + own.system, rss, pss)


def tree(pid: int) -> list[int]:
    """The process and all its descendants. Raises OSError where it does not exist."""
    _stat(pid)
    children: dict[int, list[int]] = {}
    for member in _processes():
        try:
            children.setdefault(int(_stat(member)[1]), []).append(member)
        except OSError:
            continue  # ended meanwhile
    out = [pid]
    for member in out:
        out.extend(children.get(member, ()))
    return out


def _processes() -> Iterator[int]:
    return (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the program's name, which may itself hold spaces and brackets."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _pss(pid: int) -> float:
    """The proportional set size in MB; 0.0 where it may not be read."""
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("Pss:")), 0.0)


def cost(before: Snapshot | None, after: Snapshot | None, seconds: float) -> dict[str, float]:
    """Figures of a run. ``others_share`` is the part of the machine that neither server nor client used: with a server's
    processes known, anything much above 0.05 means that a neighbour disturbed the run."""
    if before is None or after is None or seconds <= 0:
        return {}
    out = {"client_cpu_s": after.own - before.own}
    if after.rss_mb:
        spent = after.tree - before.tree
        others = (after.busy - before.busy) - spent - out["client_cpu_s"]
        out |= {"server_cpu_s": spent, "rss_mb": after.rss_mb, "pss_mb": after.pss_mb}
        out["others_share"] = max(0.0, others) / (seconds * (os.cpu_count() or 1))
    return out


def describe() -> dict[str, Any]:
    """The machine in words: processor, cores that may be used, system, load."""
    model = platform.processor()
    try:
        lines = (_PROC / "cpuinfo").read_text().splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
        cores = len(os.sched_getaffinity(0))
    except (OSError, AttributeError):
        cores = os.cpu_count() or 1
    return {"processor": model, "cores": cores, "system": platform.platform(), "load": load()}


def load() -> float:
    """The one-minute load average; 0.0 where the system has none."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0
