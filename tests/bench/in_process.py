"""An engine in this process, without HTTP, that measures what it is told line by line; run by ``offline.py``.

    python tests/bench/in_process.py --engine sgl|openvino --model FILE [--threads 2]

Reads lines ``{"requests": 16, "prompt": 64, "output": 128, "seed": 0}`` and answers each with ``{"seconds": ..., "tokens": ...}``.
Prompts are random token ids. Only the engine itself is imported beyond the standard library, so that it runs in a peer's environment.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

Generate = Callable[[list[list[int]], int], int]
"""Prompts and the exact number of new tokens of each; returns how many tokens came."""


def sgl(model: str, threads: int) -> Generate:
    """Our Engine with its worker in this process."""
    from sgl_core.serve import Engine

    engine = Engine(model, inline=True, cpu_threads=threads, log_level="error", disable_radix_cache=True)

    def generate(prompts: list[list[int]], output: int) -> int:
        sampling = {"temperature": 0, "max_new_tokens": output, "ignore_eos": True}
        answers = engine.generate(input_ids=prompts, sampling_params=sampling)
        return sum(answer["meta_info"]["completion_tokens"] for answer in answers)

    return generate


def openvino(model: str, threads: int) -> Generate:
    """OpenVINO GenAI's continuous batching on the same GGUF."""
    import numpy
    import openvino  # type: ignore[import-not-found]
    import openvino_genai as genai  # type: ignore[import-not-found]

    scheduler = genai.SchedulerConfig()
    scheduler.cache_size, scheduler.max_num_seqs, scheduler.max_num_batched_tokens = 2, 64, 4096
    scheduler.enable_prefix_caching = False
    pipeline = genai.ContinuousBatchingPipeline(model, scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads})

    def generate(prompts: list[list[int]], output: int) -> int:
        tensors = [openvino.Tensor(numpy.array([prompt], numpy.int64)) for prompt in prompts]
        settings = genai.GenerationConfig()
        settings.max_new_tokens = settings.min_new_tokens = output
        settings.ignore_eos, settings.do_sample = True, False
        results = pipeline.generate(tensors, [settings] * len(prompts))
        return sum(len(result.m_generation_ids[0]) for result in results)

    return generate


ENGINES: dict[str, Callable[[str, int], Generate]] = {"sgl": sgl, "openvino": openvino}


def measured(generate: Generate, case: dict[str, Any]) -> dict[str, float]:
    source = random.Random(case["seed"])
    prompts = [[source.randrange(100, 49000) for _ in range(case["prompt"])] for _ in range(case["requests"])]
    begun = time.perf_counter()
    tokens = generate(prompts, case["output"])
    return {"seconds": time.perf_counter() - begun, "tokens": tokens}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", required=True, choices=list(ENGINES))
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever an engine prints goes to the log, so that answers stay lines of JSON
    begun = time.perf_counter()
    generate = ENGINES[options.engine](options.model, options.threads)
    print(json.dumps({"seconds": time.perf_counter() - begun, "tokens": 0}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(measured(generate, json.loads(line))), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
