"""The machine's limits, measured with torch and its matrix library rather than with the kernels that are compared with them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

_READ_BYTES = 256 << 20
"""More than the last cache level of the processors this is for."""
_SIDE = 1536
"""Side of the squares that are multiplied: 58 ms of one core at 125 GFLOP/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of ``threads`` threads together."""

    threads: int
    read_gb_s: float
    fp32_gflop_s: float


def measure_limits(threads: int) -> Limits:
    """Under a second. The best of a few runs: others on the machine can only make it look slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        data = torch.ones(_READ_BYTES // 4)
        a, b = torch.randn(_SIDE, _SIDE), torch.randn(_SIDE, _SIDE)
        out = torch.empty(_SIDE, _SIDE)
        read = best(lambda: data.sum(), 5)
        product = best(lambda: torch.mm(a, b, out=out), 5)
    finally:
        torch.set_num_threads(before)
    return Limits(threads=threads, read_gb_s=data.nbytes / read / 1e9, fp32_gflop_s=2 * _SIDE**3 / product / 1e9)


def best(run: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)
