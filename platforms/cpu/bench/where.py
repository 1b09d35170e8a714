"""Where the time of a decode step goes: kernels by kind, Python around them, the scheduler, and the front of a server.

python platforms/cpu/bench/where.py MODEL.gguf [--streams 1,16,64] [--nice -20]

First the engine in this process, then the same number of streams over HTTP: what a step takes there, and how much CPU time the
front's process and the rest of the worker's (what is not its kernels) spend on it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
from engine import Bench

from sgl_core.serve.client import Client

sys.path.insert(0, str(Path(__file__).parents[3] / "tests/bench"))
from processes import Running, free_port, serving

STEPS = 128
GROUPS = {"linear_run": "linear", "attention_run": "attention"}
OTHERS = "norms, rotation, activations"


def in_process(bench: Bench, streams: int) -> dict[str, float]:
    """Milliseconds a step by part, medians over the steps of ``streams`` greedy requests."""
    worker: Any = bench.worker
    stepper, pilot = worker._stepper, worker.runner.graph._kernels.pilot
    spent: dict[str, list[float]] = {"run": [], "replay": []}
    run, replay = stepper.run, pilot.run

    def timed(name: str, call: Any) -> Any:
        def wrapped(*given: Any) -> Any:
            begun = time.perf_counter()
            answer = call(*given)
            spent[name].append(time.perf_counter() - begun)
            return answer

        return wrapped

    stepper.run, pilot.run = timed("run", run), timed("replay", replay)
    times, _ = bench.decode(streams, 64, STEPS, 0.0)
    stepper.run, pilot.run = run, replay
    turn, ran, kernels = (1e3 * statistics.median(x) for x in (times, spent["run"][-STEPS:], spent["replay"][-STEPS:]))
    by_op: Counter[str] = Counter()
    for name, (_, seconds) in worker.runner.graph._tapes[streams, True].tape.profile(20).items():
        by_op[GROUPS.get(name, OTHERS)] += 1e3 * seconds  # type: ignore[assignment]
    share = kernels / sum(by_op.values())
    parts = {name: ms * share for name, ms in by_op.most_common()}
    return parts | {
        "choosing tokens, Python around the kernels": ran - kernels,
        "scheduling": turn - ran,
        "a step": turn,
    }


def cpu_seconds(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return float(spent.user + spent.system)


async def over_http(server: Running, streams: int, number: int) -> dict[str, float]:
    """Milliseconds a step with so many streams at once: wall clock, and CPU time of the front's process."""
    client, front = Client(url=server.url), psutil.Process(server.pid)

    async def one(index: int) -> tuple[float, float]:
        asked = {
            "messages": [{"role": "user", "content": f"Tell me story {number}.{index}."}],
            "max_tokens": STEPS,
            "temperature": 0,
            "stream": True,
            "ignore_eos": True,
        }
        at = [time.perf_counter() async for _ in client.stream("/v1/chat/completions", asked)]
        return at[0], at[-1]

    begun = cpu_seconds(front)
    spans = await asyncio.gather(*(one(index) for index in range(streams)))
    cpu = cpu_seconds(front) - begun
    wall = statistics.median(last - first for first, last in spans)
    return {"over HTTP, a step": 1e3 * wall / STEPS, "of it the front's CPU time": 1e3 * cpu / STEPS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--streams", default="1,16,64")
    parser.add_argument(
        "--nice", type=int, default=0, help="weight of the server's session against other jobs, -20 to 19"
    )
    options = parser.parse_args()
    counts = [int(count) for count in options.streams.split(",")]
    bench = Bench(options.model, {})
    found = {count: in_process(bench, count) for count in counts}
    bench.worker.close()
    port = free_port()
    words = [sys.executable, "-m", "sgl_core", "serve", options.model, "--port", str(port)]
    with serving("sgl", words, port, Path(tempfile.mkdtemp()) / "where.log", nice=options.nice) as server:
        for count in counts:
            rounds = [asyncio.run(over_http(server, count, number)) for number in range(4)][1:]
            for name in rounds[0]:
                found[count][name] = statistics.median(one[name] for one in rounds)
    print("| ms a step | " + " | ".join(f"{count} stream{'s' * (count > 1)}" for count in counts) + " |")
    print("|---" * (len(counts) + 1) + "|")
    for name in found[counts[0]]:
        print(f"| {name} | " + " | ".join(f"{found[count][name]:.2f}" for count in counts) + " |")


if __name__ == "__main__":
    main()
