"""Every family against transformers on tiny random weights: prefill, chunks, decode, cached prefixes, mixed batches."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sgl_torch.testing import Driver, load_folder
from sgl_torch.testing.tiny_models import CASES

Tiny = Callable[[str], tuple[Path, Any]]
LENGTHS = (1, 5, 17, 40, 70)
TOLERANCE = 1e-4


def prompts(seed: int = 0) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(3, 199) for _ in range(length)] for length in LENGTHS]


def expected(model: Any, tokens: list[int]) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(torch.tensor([tokens])).logits[0]
    return logits


def reference_greedy(model: Any, tokens: list[int], steps: int) -> list[int]:
    new: list[int] = []
    for _ in range(steps):
        new.append(int(expected(model, tokens + new)[-1].argmax()))
    return new


@pytest.fixture(params=[1, 16], ids=["page1", "page16"])
def driver(request: pytest.FixtureRequest, case: str, tiny: Tiny, registries: Any) -> Driver:
    return Driver(load_folder(tiny(case)[0], registries, page_size=request.param).runner)


@pytest.mark.parametrize("case", CASES)
class TestAgainstTransformers:
    def test_prefill_whole_and_in_chunks(self, case: str, driver: Driver, tiny: Tiny) -> None:
        model = tiny(case)[1]
        for tokens in prompts():
            want = expected(model, tokens)
            whole = driver.prefill(driver.start(tokens))
            chunked = driver.prefill(driver.start(tokens), chunk=7)
            assert (whole - want).abs().max() < TOLERANCE
            assert torch.equal(chunked, whole)

    def test_cached_prefix(self, case: str, driver: Driver, tiny: Tiny) -> None:
        model = tiny(case)[1]
        long = prompts()[-1]
        first = driver.start(long)
        driver.prefill(first)
        for shared in (16, 33, 69):
            tokens = [*long[:shared], *prompts(1)[2]]
            second = driver.start(tokens, prefix=first)
            assert second.cached >= shared // driver.page_size * driver.page_size - driver.page_size
            assert second.cached > 0
            got = driver.prefill(second)
            assert (got - expected(model, tokens)[-len(got) :]).abs().max() < TOLERANCE

    def test_mixed_batch(self, case: str, driver: Driver, tiny: Tiny) -> None:
        """Decode rows of several lengths beside prompts that start, continue and end in the same step."""
        model = tiny(case)[1]
        ready = [driver.start(tokens) for tokens in prompts()]
        for sequence in ready:
            sequence.tokens.append(77)
            driver.logits([(sequence, len(sequence.tokens) - 1)])
        fresh = [driver.start(tokens) for tokens in prompts(2)]
        started = driver.start(prompts(3)[-1])
        driver.logits([(started, 30)])
        rows = [*((s, 1) for s in ready), *((s, len(s.tokens)) for s in fresh[:4]), (fresh[4], 20), (started, 40)]
        for (sequence, count), got in zip(rows, driver.logits(rows), strict=True):
            want = expected(model, sequence.tokens)[sequence.cached - count : sequence.cached]
            assert (got - want).abs().max() < TOLERANCE

    def test_greedy_alone_and_together(self, case: str, driver: Driver, tiny: Tiny) -> None:
        model = tiny(case)[1]
        alone = []
        for tokens in prompts():
            sequence = driver.start(tokens)
            alone += driver.greedy([sequence], 10, [driver.prefill(sequence)[-1]])
        assert alone == [reference_greedy(model, tokens, 10) for tokens in prompts()]
        together = [driver.start(tokens) for tokens in prompts()]
        last = [rows[-1] for rows in driver.logits([(s, len(s.tokens)) for s in together])]
        assert driver.greedy(together, 10, last) == alone


@pytest.mark.parametrize("case", ["llama", "mistral", "qwen3"])
def test_logits_have_the_same_bits_in_any_batch(case: str, tiny: Tiny, registries: Any) -> None:
    """Stronger than equal greedy tokens: batch mates, chunk borders and cached prefixes change no bit in fp32."""
    driver = Driver(load_folder(tiny(case)[0], registries, page_size=4).runner)
    rng = random.Random(9)
    everything = [[rng.randrange(3, 199) for _ in range(rng.randrange(2, 90))] for _ in range(24)]
    alone = [driver.prefill(driver.start(tokens)) for tokens in everything]
    sequences = [driver.start(tokens) for tokens in everything]
    pending = list(range(len(sequences)))
    seen: dict[int, list[torch.Tensor]] = {i: [] for i in pending}
    while pending:
        chosen = sorted(rng.sample(pending, min(len(pending), rng.randrange(1, 12))))
        rows = [
            (sequences[i], min(rng.choice((1, 1, 3, 20)), len(everything[i]) - sequences[i].cached)) for i in chosen
        ]
        order = sorted(range(len(rows)), key=lambda n: rows[n][1] != 1)
        for n, got in zip(order, driver.logits([rows[n] for n in order]), strict=True):
            seen[chosen[n]].append(got)
        pending = [i for i in pending if sequences[i].cached < len(everything[i])]
    for i, want in enumerate(alone):
        assert torch.equal(torch.cat(seen[i]), want)


def test_position_beyond_the_trained_context_under_dynamic_scaling(tiny: Tiny, registries: Any) -> None:
    """Decoding past max_position_embeddings turns each new token as transformers does in its own decoding."""
    from transformers import DynamicCache

    folder, model = tiny("llama_rope_dynamic")
    driver = Driver(load_folder(folder, registries, context_length=300).runner)
    tokens = [3 + (7 * i) % 190 for i in range(254)]
    sequence = driver.start(tokens)
    got = driver.prefill(sequence)[-1]
    with torch.no_grad():
        cache = DynamicCache(config=model.config)
        out = model(torch.tensor([tokens]), cache=cache)
        for token in (5, 6, 7, 8):
            assert (got - out.logits[0, -1]).abs().max() < TOLERANCE
            out = model(torch.tensor([[token]]), cache=cache)
            sequence.tokens.append(token)
            got = driver.logits([(sequence, 1)])[0][-1]
        assert (got - out.logits[0, -1]).abs().max() < TOLERANCE


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sixteen_bit_weights_stay_near(dtype: str, tiny: Tiny, registries: Any) -> None:
    folder, model = tiny("qwen3")
    loaded = load_folder(folder, registries, dtype=dtype, page_size=16)
    driver = Driver(loaded.runner)
    tokens = prompts()[-1]
    got, want = driver.prefill(driver.start(tokens), chunk=32), expected(model, tokens)
    assert got.dtype == torch.float32
    assert loaded.runner.pool.dtype == getattr(torch, dtype)
    assert torch.nn.functional.cosine_similarity(got, want, dim=-1).min() > 0.999
