"""The kernels alone on the default model, and the machine's limits measured just before them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from bars import Row, at_least, missing, told
from core_costs import script

_LINE = re.compile(r"^(?P<what>(?:decode|prefill) .*?) +(?P<rate>[\d.]+) tok/s median.*?;(?P<rest>.*)$")
_LIMITS = re.compile(r"limits: ([\d.]+) GB/s read, ([\d.]+) GFLOP/s")
_BARS = {
    "decode 1 x ctx 128": ("bandwidth", 0.60),
    "decode 16 x ctx 128": ("FMA", 0.40),
    "decode 64 x ctx 128": ("FMA", 0.50),
    "prefill 1500": ("FMA", 0.70),
}


@dataclass(slots=True)
class Speeds:
    """The rows to print, and the limits in GB/s and GFLOP/s (0 where they are not known)."""

    rows: list[Row] = field(default_factory=list)
    bandwidth: float = 0.0
    flops: float = 0.0


def measure(gguf: Path, nice: int) -> Speeds:
    """Run the kernels' own speed test; without a kernel library or a compiler one row says why there is nothing."""
    done = script(["kernels/bench/speed.py", str(gguf)], nice)
    found = parse(done.stdout)
    if done.returncode or not found.rows:
        found.rows.append(missing("kernels without a server", done.stderr or done.stdout))
    return found


def parse(text: str) -> Speeds:
    """The speeds from what the test printed."""
    out = Speeds()
    for line in text.splitlines():
        if limits := _LIMITS.search(line):
            out.bandwidth, out.flops = float(limits[1]), float(limits[2])
            out.rows.append(told("memory read, GB/s, and f32 FMA (256 bit), GFLOP/s", f"{limits[1]}, {limits[2]}"))
        elif line.startswith("isa "):
            out.rows.append(told("kernels", line.partition(";")[0]))
        elif match := _LINE.match(line):
            out.rows.append(_row(match["what"], match["rate"], match["rest"]))
    return out


def _row(what: str, rate: str, rest: str) -> Row:
    kind, wanted = _BARS.get(what, ("", 0.0))
    share = re.search(rf"(\d+)% of {kind}", rest) if kind else None
    if share is None:
        return told(f"kernels, {what}, tokens/s", rate, rest.strip())
    return at_least(f"kernels, {what}, share of {kind}", int(share[1]) / 100, wanted, "{:.0%}", f"{rate} tokens/s")
