"""How a decode step's time grows with the batch and with the context, and prefill with the prompt.

python platforms/cpu/bench/growth.py MODEL.gguf [--json growth.json] [--svg docs/growth.svg]

Steps run on the loaded worker, without scheduler or front. ``--svg`` needs matplotlib, which is no dependency.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from sgl_core.config import ServerArgs
from sgl_core.registry import Registries
from sgl_core.serve.prepare import prepare
from sgl_cpu.roofline.measure import decode_step, prefill_step, wipe

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (128, 256, 512, 1024, 2048, 4096, 8000)
FEW = 128
"""The context of the batches, in tokens."""
REPEATS = 9


class Steps:
    """The worker of a model, and its steps one by one."""

    def __init__(self, model: str) -> None:
        registries = Registries.discover()
        chosen = {"model_path": model, "max_running_requests": BATCHES[-1], "max_total_tokens": 80_000}
        args = ServerArgs.from_sources(cli=chosen, env=os.environ, registries=registries)
        self.worker: Any = prepare(args, registries).plan.runtime(registries).make_worker(0)
        self.worker.load(lambda what, done, total: None)
        self.runner = self.worker.runner

    def decode(self, count: int, context: int) -> float:
        """Median seconds of a step of ``count`` requests with ``context`` tokens each."""
        with torch.inference_mode():
            wipe(self.runner, count * (context + 1))
        step = decode_step(self.runner, count, context)
        self.worker.submit(step).result()
        step.new_requests = []
        return self._median(step)

    def prefill(self, tokens: int) -> float:
        """Median seconds of a prompt of ``tokens`` tokens."""
        step = prefill_step(self.runner, tokens)
        self.worker.submit(step).result()
        return self._median(step)

    def _median(self, step: Any) -> float:
        times = []
        for _ in range(REPEATS):
            begun = time.perf_counter()
            self.worker.submit(step).result()
            times.append(time.perf_counter() - begun)
        return statistics.median(times)


def measure(model: str) -> dict[str, list[tuple[int, float]]]:
    """Milliseconds by batch, by context (of one and of eight requests), and by prompt."""
    steps = Steps(model)
    return {
        "batch": [(count, 1e3 * steps.decode(count, FEW)) for count in BATCHES],
        "context, 1 stream": [(context, 1e3 * steps.decode(1, context)) for context in CONTEXTS],
        "context, 8 streams": [(context, 1e3 * steps.decode(8, context)) for context in CONTEXTS],
        "prompt": [(tokens, 1e3 * steps.prefill(tokens)) for tokens in CONTEXTS],
    }


def table(found: dict[str, list[tuple[int, float]]]) -> str:
    """Markdown: a row for each size, the rates beside the times."""
    lines = ["| requests, context 128 | ms a step | tokens/s |", "|---|---|---|"]
    lines += [f"| {count} | {ms:.1f} | {1e3 * count / ms:,.0f} |" for count, ms in found["batch"]]
    lines += ["", "| tokens of context | 1 stream, ms a step | 8 streams, ms a step | prefill, ms (tokens/s) |"]
    lines += ["|---|---|---|---|"]
    columns = zip(found["context, 1 stream"], found["context, 8 streams"], found["prompt"], strict=True)
    for (context, one), (_, eight), (_, prompt) in columns:
        lines.append(f"| {context:,} | {one:.1f} | {eight:.1f} | {prompt:,.0f} ({1e3 * context / prompt:,.0f}) |")
    return "\n".join(lines)


def draw(found: dict[str, list[tuple[int, float]]], file: Path) -> None:
    """Two plots side by side: against the batch, and against the context."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(*zip(*found["batch"], strict=True), marker="o")
    left.set(xlabel="requests with 128 tokens each", title="decode, by batch")
    for name in ("context, 1 stream", "context, 8 streams"):
        right.plot(*zip(*found[name], strict=True), marker="o", label=name.removeprefix("context, "))
    right.set(xlabel="tokens of context", title="decode, by context")
    right.legend()
    for axes, name in ((left, "batch"), (right, "context, 1 stream")):
        sizes = [size for size, _ in found[name]]
        axes.set(xscale="log", yscale="log", ylabel="ms a step")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize="small")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    found = measure(options.model)
    print(table(found))
    if options.json:
        options.json.write_text(json.dumps(found))
    if options.svg:
        draw(found, options.svg)


if __name__ == "__main__":
    main()
