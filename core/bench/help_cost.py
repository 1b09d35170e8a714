"""What ``sgl --help`` costs more than ``python -c pass``, with few and with many plugins installed. The budget is 150 ms.

    python -m bench.help_cost [--runs 20] [--plugins 0,100,1000] [--json]

Times are the minimum over the runs, alternating, so that a busy machine disturbs both sides alike.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sgl_core.testing.fake_dists import fake_dists

BUDGET_MS = 150.0


def milliseconds(command: list[str], env: dict[str, str]) -> float:
    """Wall time of one run."""
    start = time.perf_counter()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1000


def measure(plugins: int, runs: int) -> dict[str, float]:
    """Minimum times with a number of fake plugin distributions on the path."""
    with tempfile.TemporaryDirectory() as folder:
        fake_dists(Path(folder), plugins)
        env = {**os.environ, "PYTHONPATH": folder}
        nothing = [sys.executable, "-c", "pass"]
        page = [sys.executable, "-c", "from sgl_core.cli.main import main; main(['--help'])"]
        base, full = [], []
        for _ in range(runs):
            base.append(milliseconds(nothing, env))
            full.append(milliseconds(page, env))
    return {"plugins": plugins, "pass_ms": min(base), "help_ms": min(full), "extra_ms": min(full) - min(base)}


def main(argv: list[str] | None = None) -> int:
    """Print the table; 1 when a line is over the budget."""
    parser = argparse.ArgumentParser(description="The cost of sgl --help.")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--plugins", default="0,100,1000")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    rows = [measure(int(count), options.runs) for count in options.plugins.split(",")]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        print(f"{'plugins':>8} {'pass ms':>9} {'help ms':>9} {'extra ms':>9}")
        for row in rows:
            print(f"{row['plugins']:>8} {row['pass_ms']:>9.1f} {row['help_ms']:>9.1f} {row['extra_ms']:>9.1f}")
    return 1 if any(row["extra_ms"] > BUDGET_MS for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
