"""Decode and prefill speed of SmolLM2-135M through sgl_ops against this machine's own limits.

python kernels/bench/speed.py MODEL.gguf [--isa avx2] [--profile] [--kv bfloat16]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent


def limits(threads: int) -> tuple[float, float]:
    """(GB/s, GFLOP/s of 256-bit f32 FMA) of this many threads."""
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/limits"
        subprocess.run(["gcc", "-O3", "-mavx2", "-mfma", "-pthread", str(HERE / "limits.c"), "-o", program], check=True)
        return tuple(
            float(v)
            for v in subprocess.run([program, str(threads)], check=True, capture_output=True, text=True).stdout.split()
        )  # type: ignore[return-value]


def timed(run: Callable[[], None], repeats: int) -> tuple[float, float]:
    """(median, best) seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times), min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--isa")
    parser.add_argument("--kv", default="bfloat16")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--prefill", type=int, default=1500)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    if args.isa:
        os.environ["SGL_CPU_ISA"] = args.isa
    sys.path.insert(0, str(HERE))
    import numpy as np
    from smollm import PAGE, Model

    import sgl_ops

    threads = sgl_ops.set_threads(args.threads)
    start = time.perf_counter()
    model = Model(args.model, kv_dtype=args.kv, slots=65536 // 2)
    print(
        f"isa {sgl_ops.isa()}, {threads} threads, kv {args.kv}; read and packed in {time.perf_counter() - start:.2f} s"
    )
    bandwidth, flops = limits(threads)
    print(f"limits: {bandwidth} GB/s read, {flops} GFLOP/s f32 FMA (256 bit)")
    rng = np.random.default_rng(0)

    def report(name: str, tokens: int, seconds: tuple[float, float], extra: str) -> None:
        print(f"{name:<26} {tokens / seconds[0]:8.1f} tok/s median, {tokens / seconds[1]:8.1f} best; {extra}")

    def decode(batch: int, context: int, repeats: int, shared: int = 0) -> None:
        pages = -(-(context + 1) // PAGE)
        for r in range(batch):
            model.place(r, np.arange(r * pages, (r + 1) * pages))
            model.place(r, np.arange(shared // PAGE))  # the first pages are everybody's
        model.fill([(context, [int(rng.integers(0, model.vocab))]) for _ in range(batch)])
        tape = model.tape(batch)
        tape.replay()
        seconds = timed(tape.replay, repeats)
        kv = (
            2
            * len(model.layers)
            * model.kv_heads
            * model.dim
            * context
            * (4 if args.kv == "float32" else 2 if args.kv.endswith("16") else 1)
        )
        moved, work = (model.weight_bytes + batch * kv) / 1e9, batch * model.flops(context, True) / 1e9
        report(
            f"decode {batch} x ctx {context}{' shared' if shared else ''}", batch, seconds,
            f"{moved / seconds[0]:5.1f} GB/s = {moved / seconds[0] / bandwidth:4.0%} of bandwidth, "
            f"{work / seconds[0]:5.0f} GFLOP/s = {work / seconds[0] / flops:4.0%} of FMA",
        )  # fmt: skip
        if args.profile:
            for op, (count, spent) in sorted(tape.profile(10).items(), key=lambda kv: -kv[1][1]):
                print(f"    {op:<18} x{count:<4} {spent * 1e3:8.3f} ms")

    def prefill(count: int, repeats: int, bf16: bool) -> None:
        model.place(0, np.arange(-(-count // PAGE)))
        model.fill([(0, rng.integers(0, model.vocab, count).tolist())])
        seconds = timed(lambda: model.step(count, 1, bf16=bf16), repeats)
        work = count * model.flops(count / 2, False) / 1e9
        report(
            f"prefill {count}, {'bf16' if bf16 else '8 bit'}",
            count,
            seconds,
            f"{work / seconds[0]:5.0f} GFLOP/s = {work / seconds[0] / flops:4.0%} of FMA",
        )
        if args.profile:
            tape = sgl_ops.Tape()
            with tape.record():
                model.step(count, 1, bf16=bf16)
            for op, (n, spent) in sorted(tape.profile(2).items(), key=lambda kv: -kv[1][1]):
                print(f"    {op:<18} x{n:<4} {spent * 1e3:8.3f} ms")

    decode(1, 128, 60)
    decode(1, 1500, 30)
    decode(16, 128, 15)
    decode(64, 128, 6)
    decode(8, 1500, 6)
    decode(8, 1500, 6, shared=1472)
    for bf16 in (False, True) if sgl_ops.bf16_tiles() else (False,):
        prefill(args.prefill, 5, bf16)
        prefill(34, 15, bf16)


if __name__ == "__main__":
    main()
