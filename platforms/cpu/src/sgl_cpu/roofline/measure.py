"""The measurements of ``sgl bench roofline``: decode, prefill, attention and sampling of the loaded model against the machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from sgl_core.api.sampling import SamplingParams
from sgl_core.api.worker import NewRequest, StepBatch, StepResult
from sgl_torch.model_runner import ModelRunner

from .cost import ModelCost
from .limits import Limits, measure_limits

_SECONDS = 1.5
"""How long a case is repeated at least."""
_REPEATS = (3, 40)
_ATTENTION = "attention_run"
"""Its name in the profile of a tape."""

Run = Callable[[StepBatch], StepResult]


def roofline(runner: ModelRunner, run: Run, vocab: int, threads: int, sampler: Any) -> dict[str, Any]:
    """``{"threads", "read_gb_s", "fp32_gflop_s", "rows": [{"what", "ms", "tokens_s", "gb_s", "gflop_s"}]}``.

    Call it on the step thread while nothing is served: it overwrites KV pages, so cached prefixes must be dropped after it.
    Times are medians; ``gb_s`` and ``gflop_s`` count what a step must read and multiply at least, None where it has no meaning.
    """
    limits = measure_limits(threads)
    rows = [*_steps(runner, run), *_attention(runner), *_sampling(sampler, vocab)]
    return {
        "threads": limits.threads,
        "read_gb_s": limits.read_gb_s,
        "fp32_gflop_s": limits.fp32_gflop_s,
        "rows": rows,
    }


def _steps(runner: ModelRunner, run: Run) -> Iterator[dict[str, Any]]:
    cost, room = ModelCost.of(runner), runner.pool.num_slots
    most = runner.last_tokens.shape[0]
    for count, context in ((1, 128), (1, 1500), (16, 128), (64, 128)):
        if count > most or count * (context + 1) > room or context >= runner.context_length:
            continue
        wipe(runner, count * (context + 1))
        step = decode_step(runner, count, context)
        run(step)
        step.new_requests = []
        seconds = _median(lambda step=step: run(step))  # type: ignore[misc]
        yield _row(
            f"decode, {count} streams at {context} tokens",
            seconds,
            tokens=count,
            moved=cost.decode_bytes(count, context),
            flops=cost.decode_flops(count, context),
        )
    tokens = min(1500, runner.context_length - 1, room)
    step = prefill_step(runner, tokens)
    run(step)
    step.new_requests = []
    yield _row(f"prefill, {tokens} tokens", _median(lambda: run(step)), tokens=tokens, flops=cost.prefill_flops(tokens))


def _attention(runner: ModelRunner) -> Iterator[dict[str, Any]]:
    """From the profile of a recorded step: the time of the attention kernels alone."""
    graph: Any = runner.graph
    count, context = 8, 1500 if runner.context_length > 1500 else 128
    if (
        not hasattr(graph, "profile")
        or count * (context + 1) > runner.pool.num_slots
        or context >= runner.context_length
    ):
        return
    wipe(runner, count * (context + 1))
    spent = graph.profile(runner.prepare(decode_step(runner, count, context)))
    if _ATTENTION in spent:
        cost = ModelCost.of(runner)
        yield _row(
            f"attention alone, {count} streams at {context} tokens",
            spent[_ATTENTION],
            moved=count * context * cost.kv_bytes,
            flops=4 * count * context * cost.attention,
        )


def _sampling(sampler: Any, vocab: int) -> Iterator[dict[str, Any]]:
    count = 64
    logits = 3 * torch.randn(count, vocab)  # as peaked as those of a language model
    for what, sampling in (
        ("greedy", SamplingParams(temperature=0.0)),
        ("temperature, top-p, top-k", SamplingParams(temperature=0.8, top_p=0.95, top_k=50, seed=1)),
    ):
        made = sampler(vocab, count, torch.device("cpu"))
        for slot in range(count):
            made.admit(NewRequest(slot=slot, rid="roofline", prompt_ids=[0], output_ids=[], sampling=sampling))
        seconds = _median(lambda made=made: made.sample(logits, list(range(count)), None, []))  # type: ignore[misc]
        yield _row(f"sampling 64 rows, {what}", seconds, tokens=count, moved=logits.nbytes)


def decode_step(runner: ModelRunner, count: int, context: int) -> StepBatch:
    """One token for each of ``count`` requests that have ``context`` tokens; their pages lie one after the other."""
    size = runner.page_size
    pages = context // size + 1
    table = np.arange(count * pages, dtype=np.int32).reshape(count, pages)
    slots = np.arange(count, dtype=np.int32)
    return StepBatch(
        step_id=0,
        slots=slots,
        token_ids=np.full(count, 100, dtype=np.int32),
        query_lens=np.ones(count, dtype=np.int32),
        context_lens=np.full(count, context, dtype=np.int32),
        page_table=table,
        write_slots=table[:, -1] * size + context % size,
        sample=np.ones(count, dtype=np.bool_),
        new_requests=[_request(slot) for slot in range(count)],
    )


def prefill_step(runner: ModelRunner, tokens: int) -> StepBatch:
    """One prompt of ``tokens`` tokens in one step."""
    ids = (np.arange(tokens, dtype=np.int32) * 37) % 1000 + 100
    return StepBatch(
        step_id=0,
        slots=np.zeros(1, dtype=np.int32),
        token_ids=ids,
        query_lens=np.array([tokens], dtype=np.int32),
        context_lens=np.zeros(1, dtype=np.int32),
        page_table=np.arange(-(-tokens // runner.page_size), dtype=np.int32).reshape(1, -1),
        write_slots=np.arange(tokens, dtype=np.int32),
        sample=np.ones(1, dtype=np.bool_),
        prompts_from=0,
        new_requests=[_request(0)],
    )


def _request(slot: int) -> NewRequest:
    greedy = SamplingParams(temperature=0.0)
    return NewRequest(slot=slot, rid=f"roofline-{slot}", prompt_ids=[100], output_ids=[], sampling=greedy)


def wipe(runner: ModelRunner, tokens: int) -> None:
    """Zero keys and values: what lies there may be anything, and odd numbers are slow to multiply."""
    rows = tokens + runner.page_size
    for tensor in (*runner.pool.k, *runner.pool.v):
        tensor[:rows].view(torch.uint8).zero_()
    for scales in (*runner.pool.k_scales, *runner.pool.v_scales):
        scales[:rows].fill_(1.0)


def _median(run: Callable[[], object]) -> float:
    times: list[float] = []
    least, most = _REPEATS
    while len(times) < least or (sum(times) < _SECONDS and len(times) < most):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def _row(
    what: str, seconds: float, *, tokens: int | None = None, moved: int | None = None, flops: int | None = None
) -> dict[str, Any]:
    return {
        "what": what,
        "ms": 1e3 * seconds,
        "tokens_s": None if tokens is None else tokens / seconds,
        "gb_s": None if moved is None else moved / seconds / 1e9,
        "gflop_s": None if flops is None else flops / seconds / 1e9,
    }


__all__ = ["Limits", "decode_step", "prefill_step", "roofline", "wipe"]
