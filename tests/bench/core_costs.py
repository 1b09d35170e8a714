"""The benchmarks of the core: what the help page costs, what the engine does without a model, what a resolution costs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bars import Row, at_least, at_most, missing, told
from processes import stop, weigh

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Done:
    """How a script ended."""

    returncode: int
    stdout: str
    stderr: str


def script(words: Sequence[str], nice: int = 0) -> Done:
    """Run a script of this checkout with this Python, in a session of its own that weighs ``nice``."""
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        weigh(process.pid, nice)
        out, errors = process.communicate()
    finally:
        stop(process)
    return Done(process.returncode, out, errors)


def help_page(full: bool, nice: int) -> list[Row]:
    """``sgl --help`` beyond ``python -c pass``."""
    done = script(["core/bench/help_cost.py", "--json", "--runs", "20" if full else "6"], nice)
    if not done.stdout.startswith("["):
        return [missing("sgl --help", done.stderr)]
    return [
        at_most(f"sgl --help with {row['plugins']} foreign plugins, ms over bare python", row["extra_ms"], 150)
        for row in json.loads(done.stdout)
    ]


def engine(full: bool, nice: int) -> list[Row]:
    """Scheduler and messages over the null worker."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        done = script(["core/bench/engine.py", *([] if full else ["--quick"]), "--json", str(file)], nice)
        if not file.exists():
            return [missing("the engine without a model", done.stderr)]
        rows = {row["requests"]: row for row in json.loads(file.read_text())}
    few, many = min(rows), max(rows)
    growth = rows[many]["engine"] / rows[few]["engine"] / (many / few)
    return [
        at_least("null engine, 256 requests, tokens/s", rows[256]["rate"], 50_000),
        at_most(f"engine time per step, {few} to {many:,} requests, growth per request", growth, 1, "{:.2f}"),
        told("null engine, 256 requests, with arrivals, tokens/s", f"{rows[256]['rate_with_arrivals']:,.0f}"),
    ]


def resolution(full: bool, nice: int) -> list[Row]:
    """The configuration of DeepSeek-V3 on eight B200, and 1,000 dummy rules against 250."""
    done = script(["tests/bench/resolution.py"], nice)
    if done.returncode:
        return [missing("resolution of a configuration", done.stderr)]
    found = json.loads(done.stdout)
    return [
        at_most("resolution of DeepSeek-V3 on b200x8, ms", found["deepseek_v3_b200_ms"], 5, "{:.1f}"),
        at_most("resolution, 250 to 1,000 rules, growth per rule", found["growth"], 1.25, "{:.2f}"),
        Row(
            "torch imported by a resolution",
            "yes" if found["torch_imported"] else "no",
            "no",
            not found["torch_imported"],
        ),
    ]
