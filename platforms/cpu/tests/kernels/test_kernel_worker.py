"""Workers of the CPU platform with and without the kernel library: what serves, what is said, and answers that batches cannot change."""

from __future__ import annotations

from dataclasses import replace
from threading import current_thread
from typing import Any

import numpy as np
import pytest
import torch

import sgl_ops
from sgl_core.api.sampling import SamplingParams
from sgl_core.api.worker import NewRequest
from sgl_cpu.kernels.sampler import KernelSampler
from sgl_torch.testing.driver import Driver, Sequence

GREEDY = SamplingParams(temperature=0.0)
PROMPTS = [[3 + n, 50, (7 * n + 1) % 199, 9, 120 - n][: 2 + n % 4] for n in range(7)]


def generate(worker: Any, prompts: list[list[int]], steps: int, sampling: SamplingParams = GREEDY) -> list[list[int]]:
    """Through ``submit``, all prompts together; where the worker overlaps, each step is sent before the one before it is known."""
    driver = Driver(worker.runner)
    sequences = [driver.start(prompt) for prompt in prompts]
    new = [
        NewRequest(slot=s.slot, rid=str(s.slot), prompt_ids=s.tokens, output_ids=[], sampling=sampling)
        for s in sequences
    ]
    pending = [worker.submit(driver.batch([(s, len(s.tokens)) for s in sequences], new))]
    for _ in range(steps - 1):
        if not worker.overlaps:
            pending[-1].result()
        for sequence in sequences:
            sequence.tokens.append(-1)
        pending.append(worker.submit(driver.batch([(s, 1) for s in sequences], unknown=[s.slot for s in sequences])))
    results = [step.result() for step in pending]
    assert not any(result.errors for result in results)
    return [list(tokens) for tokens in zip(*(result.tokens.tolist() for result in results), strict=True)]


@pytest.mark.parametrize("sampling", [GREEDY, SamplingParams(temperature=0.8, top_p=0.9, top_k=40, seed=7)])
@pytest.mark.parametrize("case", ["llama", "qwen3_windows"])
def test_answers_do_not_depend_on_the_batch(case: str, sampling: SamplingParams, worker_of: Any) -> None:
    worker = worker_of(case)
    together = generate(worker, PROMPTS, 12, sampling)
    alone = [generate(worker, [prompt], 12, sampling)[0] for prompt in PROMPTS]
    assert together == alone
    assert generate(worker_of(case, disable_decode_cuda_graph=True), PROMPTS, 12, sampling) == together
    assert generate(worker_of(case, cpu_threads=None), PROMPTS, 12, sampling) == together


def test_greedy_tokens_are_those_of_transformers(worker_of: Any, checkpoint: Any) -> None:
    worker, model = worker_of("qwen2", cpu_exact_activations=True), checkpoint("qwen2")[1]
    for prompt, tokens in zip(PROMPTS, generate(worker, PROMPTS, 24), strict=True):
        with torch.inference_mode():
            logits = model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
        assert logits.argmax(-1).tolist() == tokens


def test_start_up_lines(worker_of: Any) -> None:
    notes = worker_of("llama").notes
    assert {"attention: sgl_ops", "ops: sgl_ops", "batch invariance: exact"} <= set(notes)
    prompts = ", prompts in bf16" if sgl_ops.library.bf16_tiles() else ""
    activations = f"activations 8 bit where weights are integers{prompts}"
    assert f"kernels: {sgl_ops.isa()}, 1 threads, {activations}; sampler sgl_ops" in notes
    assert "float32; sampler" in "\n".join(worker_of("llama", cpu_exact_activations=True).notes)


def test_torch_keeps_to_one_thread(worker_of: Any) -> None:
    worker = worker_of("llama", cpu_threads=None)
    assert worker._thread.submit(torch.get_num_threads).result() == 1


def test_a_sampler_that_was_asked_for_stays(worker_of: Any) -> None:
    worker = worker_of("llama", sampling_backend="pytorch")
    assert isinstance(worker._stepper._sampler, KernelSampler)
    worker = worker_of("llama", asked=("sampling_backend",), sampling_backend="pytorch")
    assert not isinstance(worker._stepper._sampler, KernelSampler)


class TestWithoutTheLibrary:
    @pytest.fixture(autouse=True)
    def missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        gone = sgl_ops.Availability(False, "the compiled library is not there. Build it with `python -m sgl_ops.build`")
        monkeypatch.setattr(sgl_ops, "available", lambda: gone)

    def test_torch_serves_and_says_how_to_be_faster(self, worker_of: Any, caplog: pytest.LogCaptureFixture) -> None:
        worker = worker_of("llama", kv_cache_dtype="auto")
        assert "attention: torch_native" in worker.notes
        slow = [note for note in worker.notes if note.startswith("slow: ")]
        assert len(slow) == 1
        assert "python -m sgl_ops.build" in slow[0]
        assert "slow" in caplog.text
        assert worker.runner.pool.dtype == torch.float32
        assert worker.runner.graph is None
        assert len(generate(worker, PROMPTS, 3)) == len(PROMPTS)

    def test_asking_for_the_kernels_fails_loudly(self, worker_of: Any) -> None:
        with pytest.raises(ValueError, match=r"sgl_ops cannot serve: .*sgl_ops\.build"):
            worker_of("llama", asked=("attention_backend",), attention_backend="sgl_ops")

    def test_an_int8_cache_needs_them(self, worker_of: Any) -> None:
        with pytest.raises(ValueError, match="cannot serve"):
            worker_of("llama", kv_cache_dtype="int8")


def test_a_compute_dtype_that_they_do_not_have(worker_of: Any) -> None:
    worker = worker_of("llama", dtype="bfloat16")
    assert "attention: torch_native" in worker.notes
    assert any("compute in float32, not bfloat16" in note for note in worker.notes)


@pytest.mark.parametrize("overlaps", [False, True])
def test_decode_steps_run_where_they_cost_least(
    overlaps: bool, worker_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the caller's thread where the kernels take every CPU, else on the worker's; a step that raises does not take others with it."""
    worker = worker_of("llama")
    worker.overlaps = overlaps
    want = generate(worker, PROMPTS, 6)
    threads: set[str] = set()
    replay = type(worker._stepper)._replay

    def watched(*args: Any) -> Any:
        threads.add(current_thread().name)
        return replay(*args)

    monkeypatch.setattr(type(worker._stepper), "_replay", watched)
    assert generate(worker, PROMPTS, 6) == want
    assert threads == ({"sgl-step_0"} if overlaps else {current_thread().name})

    def broken(*args: Any) -> Any:
        raise RuntimeError("this step")

    monkeypatch.setattr(type(worker._stepper), "_replay", broken)
    with pytest.raises(RuntimeError, match="this step"):
        generate(worker, PROMPTS, 6)
    monkeypatch.setattr(type(worker._stepper), "_replay", replay)
    assert generate(worker, PROMPTS, 6) == want


def test_a_mixed_step_is_the_sum_of_its_rows(worker_of: Any) -> None:
    """Prefill chunks and decode rows in one step."""
    worker = worker_of("llama")
    runner = worker.runner
    driver = Driver(runner)

    def decode_row() -> Sequence:
        sequence = driver.start([3, 4, 5, 6])
        driver.prefill(sequence)
        sequence.tokens.append(9)
        return sequence

    alone = driver.logits([(decode_row(), 1)])[0]
    prompt = driver.start(list(range(10, 30)))
    whole = driver.prefill(driver.start(list(range(10, 30))))
    mixed = driver.logits([(decode_row(), 1), (prompt, 20)])
    assert torch.equal(mixed[0], alone)
    assert torch.equal(mixed[1], whole)


class TestSampler:
    """The kernels' choice among equal logits and its statistics."""

    def sampler(self, sampling: SamplingParams, rows: int = 1) -> KernelSampler:
        made = KernelSampler(50, rows)
        for slot in range(rows):
            made.admit(NewRequest(slot=slot, rid="r", prompt_ids=[1], output_ids=[], sampling=sampling))
        return made

    def test_greedy_takes_the_first_of_equals(self) -> None:
        logits = torch.zeros(1, 50)
        logits[0, [7, 30]] = 2.0
        assert self.sampler(GREEDY).sample(logits, [0])[0].tolist() == [7]

    def test_greedy_rows_among_drawn_ones(self) -> None:
        sampler = KernelSampler(50, 2)
        for slot, params in enumerate((GREEDY, SamplingParams(temperature=1.5, seed=3))):
            sampler.admit(NewRequest(slot=slot, rid="r", prompt_ids=[1], output_ids=[], sampling=params))
        logits = torch.randn(2, 50)
        tokens = sampler.sample(logits.clone(), [0, 1])[0]
        assert tokens[0] == logits[0].argmax()
        assert tokens.dtype == torch.int64

    def test_a_seed_repeats_and_draws_follow_the_probabilities(self) -> None:
        sampling = SamplingParams(temperature=0.7, top_k=5, seed=11)
        logits = torch.linspace(-1, 2, 50).repeat(1, 1)

        def run() -> list[int]:
            sampler = self.sampler(sampling)
            return [int(sampler.sample(logits.clone(), [0])[0]) for _ in range(3000)]

        first = run()
        assert first == run()
        assert set(first) == set(range(45, 50))
        want = (logits[0, 45:] / 0.7).softmax(-1).numpy()
        got = np.bincount(first, minlength=50)[45:] / len(first)
        assert np.abs(got - want).max() < 0.04


class TestPromptsInTiles:
    """Prompts are multiplied in bf16 where the machine has tiles; a token gets the same bits however its step is put together."""

    PROMPT = [(7 * i + 3) % 199 for i in range(41)]
    ANSWER = [5, 90, 33, 120]

    def hidden(self, worker: Any, cuts: list[int], answers: list[int]) -> torch.Tensor:
        """Logits after the prompt in chunks of ``cuts`` tokens and then the answer in chunks of ``answers``, beside another request."""
        driver, stepper = Driver(worker.runner), worker._stepper
        other, sequence = driver.start([9, 8, 7, 6]), driver.start([*self.PROMPT, *self.ANSWER])
        stepper._hidden(worker.runner.prepare(first := driver.batch([(other, 4)])), replace(first, prompts_from=0))
        rows = []
        with torch.inference_mode():
            for count in (*cuts, *answers):
                of_prompt = sequence.cached < len(self.PROMPT)
                other.tokens.append(11)
                step = driver.batch([(other, 1), (sequence, count)])
                step.prompts_from = 1 if of_prompt else 2
                rows.append(stepper._hidden(worker.runner.prepare(step), step)[1:].clone())
        return torch.cat(rows)

    def test_chunks_do_not_matter(self, worker_of: Any) -> None:
        worker = worker_of("llama_tied")
        whole = self.hidden(worker, [41], [1, 1, 1, 1])
        assert torch.equal(self.hidden(worker, [1, 17, 22, 1], [4]), whole)
        assert torch.equal(self.hidden(worker, [40, 1], [3, 1]), whole)

    def test_only_prompts_are_rounded(self, worker_of: Any) -> None:
        worker = worker_of("llama_tied")
        kernels, driver = worker._shared["sgl_ops"], Driver(worker.runner)
        step = driver.batch([(driver.start([3, 4]), 2)])
        with kernels.prompts(replace(step, prompts_from=2, query_lens=np.array([1, 3, 5], np.int32))):
            assert (kernels.bf16_requests, kernels.bf16_tokens) == (2, 4)
        assert (kernels.bf16_requests, kernels.bf16_tokens) == (None, None)
        kernels.exact = True
        with kernels.prompts(replace(step, prompts_from=0)):
            assert kernels.bf16_requests is None
