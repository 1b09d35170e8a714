"""Decode and prefill speed of the whole engine without a front: Scheduler and TorchWorker in this process, greedy, beside the bare tape.

python platforms/cpu/bench/engine.py MODEL.gguf --streams 1,16,64 --context 64 --steps 64 [--set cpu_threads=1] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import resource
import statistics
import time
from typing import Any

import numpy as np

from sgl_core.api.sampling import SamplingParams
from sgl_core.config import ServerArgs
from sgl_core.engine.assembly import assemble
from sgl_core.engine.limits import EngineLimits
from sgl_core.engine.messages import Generate
from sgl_core.registry import Registries
from sgl_core.serve.prepare import prepare


class Bench:
    """A loaded engine whose turns are taken by hand."""

    def __init__(self, model: str, settings: dict[str, Any]) -> None:
        registries = Registries.discover()
        args = ServerArgs.from_sources(cli={"model_path": model, **settings}, env=os.environ, registries=registries)
        self.plan = prepare(args, registries).plan
        start, cpu = time.perf_counter(), time.process_time()
        self.worker = self.plan.runtime(registries).make_worker(0)
        self.capacity = self.worker.load(lambda what, done, total: None)
        print(f"loaded in {time.perf_counter() - start:.2f} s wall, {time.process_time() - cpu:.2f} s CPU")
        print("\n".join(f"  {note}" for note in self.capacity.notes))

        def load(registry: str, name: str) -> Any:
            return registries[registry].load(name)

        self.scheduler = assemble(self.worker, self.capacity, EngineLimits.from_config(self.plan.config), load=load)
        self._number = 0

    def add(self, prompt: list[int], new: int, temperature: float) -> None:
        self._number += 1
        sampling = SamplingParams(max_new_tokens=new, temperature=temperature, ignore_eos=True, seed=self._number)
        self.scheduler.add(Generate(rid=f"r{self._number}", input_ids=prompt, sampling=sampling))

    def turn(self) -> int:
        """One turn; gives the number of new tokens."""
        self.scheduler.turn()
        count = sum(len(output.token_ids) for output in self.scheduler.outputs)
        self.scheduler.outputs.clear()
        return count

    def decode(self, streams: int, context: int, steps: int, temperature: float) -> tuple[list[float], float]:
        """Seconds of each step with all streams decoding, and CPU seconds of this process over them."""
        rng = np.random.default_rng(0)
        vocab = self.capacity.vocab_size
        for _ in range(streams):
            self.add(rng.integers(100, vocab - 100, context).tolist(), steps + 8, temperature)
        while int(self.scheduler.state.slots.decoding.sum()) < streams:
            self.turn()
        for _ in range(3):
            self.turn()
        times = []
        cpu = time.process_time()
        for _ in range(steps):
            start = time.perf_counter()
            self.turn()
            times.append(time.perf_counter() - start)
        cpu = time.process_time() - cpu
        while self.scheduler.busy:
            self.turn()
        return times, cpu

    def prefill(self, length: int) -> float:
        """Seconds to the first token of a prompt that nothing has cached."""
        rng = np.random.default_rng(time.perf_counter_ns() % 1000)
        self.add(rng.integers(100, self.capacity.vocab_size - 100, length).tolist(), 1, 0.0)
        start = time.perf_counter()
        while self.scheduler.busy:
            self.turn()
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--streams", default="1,16,64")
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--prefill", default="1500,34")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--profile", action="store_true", help="cProfile of the scheduler's and the step thread")
    args = parser.parse_args()
    settings = {name: _value(text) for name, _, text in (item.partition("=") for item in args.set)}
    bench = Bench(args.model, settings)
    for streams in [int(n) for n in args.streams.split(",") if n]:
        if args.profile:
            _profiled(bench, streams, args)
            continue
        times, cpu = bench.decode(streams, args.context, args.steps, args.temperature)
        median, best = statistics.median(times), min(times)
        print(
            f"decode {streams:3} streams, context {args.context}+: {streams / median:8.1f} tok/s median, {streams / best:8.1f} best; "
            f"{1e3 * median:.2f} ms a step, CPU {1e3 * cpu / args.steps:.2f} ms a step"
        )
        report_tape(bench, streams, median)
    for length in [int(n) for n in args.prefill.split(",") if n]:
        seconds = [bench.prefill(length) for _ in range(3)]
        print(
            f"prefill {length}: {length / statistics.median(seconds):8.1f} tok/s median, {length / min(seconds):.1f} best"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    bench.worker.close()


def report_tape(bench: Bench, streams: int, seconds: float) -> None:
    """The same steps by replaying the worker's own tape and nothing else."""
    graph = bench.worker.runner.graph  # type: ignore[attr-defined]
    recorded = getattr(graph, "_tapes", {}).get((streams, True))
    if recorded is None:
        return
    spent = []
    for _ in range(40):
        start = time.perf_counter()
        recorded.tape.replay()
        spent.append(time.perf_counter() - start)
    bare = statistics.median(spent)
    print(f"    the tape alone: {1e3 * bare:.2f} ms, best {1e3 * min(spent):.2f}; engine / tape {seconds / bare:.2f}")


def _profiled(bench: Bench, streams: int, args: argparse.Namespace) -> None:
    stepper = bench.worker._stepper  # type: ignore[attr-defined]
    inner, outer = cProfile.Profile(), cProfile.Profile()
    run = stepper.run
    stepper.run = lambda batch: inner.runcall(run, batch)
    outer.enable()
    bench.decode(streams, args.context, args.steps, args.temperature)
    outer.disable()
    stepper.run = run
    for name, profile in (("scheduler thread", outer), ("step thread", inner)):
        print(f"== {name}, {streams} streams, {args.steps} steps")
        pstats.Stats(profile).sort_stats("tottime").print_stats(18)


def _value(text: str) -> Any:
    return int(text) if text.lstrip("-").isdigit() else {"true": True, "false": False}.get(text, text)


if __name__ == "__main__":
    main()
