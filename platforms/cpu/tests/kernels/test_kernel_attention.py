"""The kernel backend in whole models: every family against transformers in fp32, every cache dtype, batch and chunking invariance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sgl_core.api.worker import StepBatch
from sgl_torch.testing import tiny_models
from sgl_torch.testing.driver import Driver

EXACT = {"cpu_exact_activations": True}
PROMPTS = [[5, 17, 3, 99, 4, 120, 33, 7, 8, 60, 2, 44, 9, 13], [70, 71, 72], list(range(20, 60))]


@pytest.mark.parametrize("case", sorted(set(tiny_models.CASES) - {"mimo"}))
def test_fp32_logits_are_those_of_transformers(case: str, worker_of: Any, checkpoint: Any) -> None:
    driver = Driver(worker_of(case, **EXACT).runner)
    for prompt in PROMPTS:
        with torch.inference_mode():
            want = checkpoint(case)[1](torch.tensor([prompt])).logits[0]
        got = driver.prefill(driver.start(prompt), chunk=5)
        torch.testing.assert_close(got, want, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    ("stored", "limit"), [("auto", 5e-5), ("float16", 1e-6), ("int8", 1e-4), ("fp8_e4m3", 5e-3), ("float32", 1e-9)]
)
def test_cache_dtypes_are_near(stored: str, limit: float, worker_of: Any) -> None:
    """Mean KL divergence against an fp32 cache; ``auto`` is bfloat16."""
    exact = Driver(worker_of("llama", **EXACT).runner)
    worker = worker_of("llama", kv_cache_dtype=stored)
    driver = Driver(worker.runner)
    name = {"auto": "bfloat16", "fp8_e4m3": "float8_e4m3fn"}.get(stored, stored)
    assert str(worker.runner.pool.dtype) == f"torch.{name}"
    for prompt in PROMPTS:
        want = exact.prefill(exact.start(prompt)).log_softmax(-1)
        got = driver.prefill(driver.start(prompt)).log_softmax(-1)
        assert (want.exp() * (want - got)).sum(-1).mean() < limit


@pytest.mark.parametrize("stored", ["auto", "int8", "fp8_e4m3"])
@pytest.mark.parametrize("case", ["llama", "qwen2_windows", "qwen3"])
def test_a_row_is_the_same_in_any_batch_and_any_chunks(case: str, stored: str, worker_of: Any) -> None:
    runner = worker_of(case, kv_cache_dtype=stored).runner
    driver = Driver(runner)
    alone = [driver.prefill(driver.start(prompt))[-1] for prompt in PROMPTS]
    cut = [driver.prefill(driver.start(prompt), chunk=3)[-1] for prompt in PROMPTS]
    sequences = [driver.start(prompt) for prompt in PROMPTS]
    together = [rows[-1] for rows in driver.logits([(s, len(s.tokens)) for s in sequences])]
    for one, two, three in zip(alone, cut, together, strict=True):
        assert torch.equal(one, two)
        assert torch.equal(one, three)


@pytest.mark.parametrize("stored", ["auto", "int8"])
def test_copied_pages_hold_the_same_keys(stored: str, worker_of: Any) -> None:
    runner = worker_of("llama", kv_cache_dtype=stored).runner
    driver = Driver(runner)
    first = driver.start(PROMPTS[2])
    driver.prefill(first)
    first.tokens.append(11)
    step = driver.batch([(first, 1)])
    want = runner.forward_logits(step)
    free = runner.pool.num_slots // runner.page_size - 1
    assert free not in first.pages
    source = int(step.page_table[0, 0])
    copied = StepBatch(
        step_id=99,
        slots=step.slots,
        token_ids=step.token_ids,
        query_lens=step.query_lens,
        context_lens=step.context_lens,
        page_table=np.where(step.page_table == source, free, step.page_table),
        write_slots=step.write_slots,
        sample=step.sample,
        page_copies=np.array([[source, free]], np.int32),
    )
    assert torch.equal(runner.forward_logits(copied), want)


def test_q_k_and_v_given_apart(worker_of: Any) -> None:
    """A model that prepares queries and keys by itself gets the same as by the fused way."""
    runner = worker_of("qwen3").runner
    driver = Driver(runner)
    want = driver.prefill(driver.start(PROMPTS[0]))
    runner.attention.fuses_qkv = False
    got = driver.prefill(driver.start(PROMPTS[0]))
    torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)


def test_a_cache_dtype_without_a_kernel_is_refused(worker_of: Any) -> None:
    with pytest.raises(Exception, match="fp8_e5m2"):
        worker_of("llama", asked=("attention_backend",), attention_backend="sgl_ops", kv_cache_dtype="fp8_e5m2")
