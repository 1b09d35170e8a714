"""TorchWorker through its contract: steps, overlap, prompt log-probabilities, embeddings, errors of single rows, control."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from sgl_core.api.sampling import LogprobOptions, SamplingParams
from sgl_core.api.worker import NewRequest, StepBatch
from sgl_core.config.model_info import model_info_from_config
from sgl_torch.exactness import ask_for_strict_matmul
from sgl_torch.forward_batch import ForwardBatch
from sgl_torch.model_runner import ModelRunner
from sgl_torch.settings import RuntimeSettings
from sgl_torch.testing import Driver, Sequence, tiny_models
from sgl_torch.worker import TorchWorker

GREEDY = SamplingParams(temperature=0.0)
PROMPT = [11, 12, 13, 14, 15, 16, 17]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("llama")
    return folder, tiny_models.make("llama", folder)


def make_worker(folder: Path, registries: Any, **settings: Any) -> TorchWorker:
    info = model_info_from_config(json.loads((folder / "config.json").read_text()), str(folder))
    chosen = {"max_total_tokens": 1024, "max_requests": 8, "page_size": 4, **settings}
    return TorchWorker(info, RuntimeSettings(**chosen), registries)


@pytest.fixture
def worker(oracle: tuple[Path, Any], registries: Any) -> Iterator[TorchWorker]:
    ask_for_strict_matmul()
    worker = make_worker(oracle[0], registries)
    worker.load(lambda what, done, total: None)
    yield worker
    worker.close()


def request(sequence: Sequence, **fields: Any) -> NewRequest:
    given = {"sampling": GREEDY, "output_ids": [], **fields}
    return NewRequest(slot=sequence.slot, rid=f"r{sequence.slot}", prompt_ids=list(sequence.tokens), **given)


def want(model: Any, tokens: list[int]) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(torch.tensor([tokens])).logits[0]
    return logits


def test_capacity_says_what_was_decided(oracle: tuple[Path, Any], registries: Any) -> None:
    reports: list[tuple[str, int, int]] = []
    worker = make_worker(oracle[0], registries)
    capacity = worker.load(lambda *report: reports.append(report))
    worker.close()
    assert (capacity.num_pages, capacity.page_size, capacity.max_requests) == (256, 4, 8)
    assert (capacity.vocab_size, capacity.context_length) == (199, 256)
    assert capacity.kv_bytes_per_token == 3 * 2 * 2 * 16 * 4
    assert capacity.weight_bytes > 300_000
    assert "attention: torch_native" in capacity.notes
    assert "batch invariance: exact" in capacity.notes
    assert reports[0][0] == "weights"
    assert reports[-1] == ("weights", len(reports), len(reports))


def test_overlapped_steps_chain_on_the_device(worker: TorchWorker, oracle: tuple[Path, Any]) -> None:
    """Step n + 1 is submitted before step n's token is known: -1 stands for it."""
    driver = Driver(worker.runner)
    a, b = driver.start(PROMPT), driver.start([5, 6])
    steps = [worker.submit(driver.batch([(a, 7), (b, 2)], [request(a), request(b)]))]
    for _ in range(5):
        for sequence in (a, b):
            sequence.tokens.append(-1)
        steps.append(worker.submit(driver.batch([(a, 1), (b, 1)], unknown=[a.slot, b.slot])))
    got = np.array([step.result().tokens for step in steps])
    assert all(step.done() for step in steps)
    for column, prompt in enumerate((PROMPT, [5, 6])):
        tokens = list(prompt)
        for _ in range(6):
            tokens.append(int(want(oracle[1], tokens)[-1].argmax()))
        assert got[:, column].tolist() == tokens[len(prompt) :]


def test_a_chunk_that_does_not_end_its_prompt_samples_nothing(worker: TorchWorker) -> None:
    driver = Driver(worker.runner)
    a, b = driver.start(PROMPT), driver.start([5, 6])
    result = worker.submit(driver.batch([(b, 2), (a, 3)], [request(a), request(b)])).result()
    assert result.tokens[1] == -1
    assert result.tokens[0] >= 0


@pytest.mark.parametrize("chunk", [2, 3, 7])
@pytest.mark.parametrize("start", [0, 1, 4, 6])
def test_prompt_logprobs(worker: TorchWorker, oracle: tuple[Path, Any], chunk: int, start: int) -> None:
    options = LogprobOptions(output=True, top=3, prompt_start=start, token_ids=(4, 190))
    scores = want(oracle[1], PROMPT).log_softmax(-1)
    driver = Driver(worker.runner)
    a = driver.start(PROMPT)
    values: dict[int, float | None] = {}
    top: dict[int, list[tuple[int, float]]] = {}
    wanted: dict[int, list[tuple[int, float]]] = {}
    new = [request(a, logprobs=options)]
    while a.cached < len(PROMPT):
        context = a.cached
        result = worker.submit(driver.batch([(a, min(chunk, len(PROMPT) - context))], new)).result()
        new = []
        row = result.prompt_logprobs.get(0)
        if row is not None:
            assert len(row.token_logprobs) == len(row.top) == len(row.wanted)
            for i, value in enumerate(row.token_logprobs):
                values[context + 1 + i], top[context + 1 + i], wanted[context + 1 + i] = (
                    value,
                    row.top[i],
                    row.wanted[i],
                )
    assert sorted(values) == list(range(1, 7))
    for position, value in values.items():
        if position < start:
            assert (value, top[position], wanted[position]) == (None, [], [])
            continue
        line = scores[position - 1]
        assert value == pytest.approx(line[PROMPT[position]].item(), abs=1e-4)
        assert [i for i, _ in top[position]] == line.topk(3).indices.tolist()
        assert [i for i, _ in wanted[position]] == [4, 190]
        assert [value for _, value in wanted[position]] == pytest.approx(line[[4, 190]].tolist(), abs=1e-4)
    sampled = result.logprobs[0]
    assert sampled.token_logprobs[0] == pytest.approx(scores[-1].max().item(), abs=1e-4)


def test_embedding_is_the_normalized_last_hidden_state(worker: TorchWorker, oracle: tuple[Path, Any]) -> None:
    driver = Driver(worker.runner)
    a, b, c = driver.start(PROMPT), driver.start([5, 6]), driver.start([9, 8, 7])
    new = [request(a, embed=True), request(b), request(c, embed=True)]
    first = worker.submit(driver.batch([(b, 2), (a, 4), (c, 3)], new)).result()
    assert sorted(first.embeddings) == [2]
    assert first.tokens[0] >= 0
    assert first.tokens[2] == -1
    second = worker.submit(driver.batch([(a, 3)])).result()
    with torch.no_grad():
        hidden = oracle[1].model(torch.tensor([PROMPT])).last_hidden_state[0, -1]
    vector = second.embeddings[0]
    assert vector.dtype == np.float32
    assert np.abs(vector - (hidden / hidden.norm()).numpy()).max() < 1e-5
    assert second.tokens.tolist() == [-1]


def test_a_request_the_sampler_refuses_fails_alone(worker: TorchWorker) -> None:
    driver = Driver(worker.runner)
    a, b = driver.start(PROMPT), driver.start(PROMPT)
    new = [request(a, logit_processor="none_such"), request(b)]
    result = worker.submit(driver.batch([(a, 7), (b, 7)], new)).result()
    assert list(result.errors) == [0]
    assert "none_such" in result.errors[0]
    assert result.tokens[0] == -1
    assert result.tokens[1] >= 0


def test_values_that_are_not_finite_fail_their_own_row(worker: TorchWorker) -> None:
    driver = Driver(worker.runner)
    a, b = driver.start(PROMPT), driver.start([5, 6, 7])
    worker.submit(driver.batch([(a, 6), (b, 2)], [request(a), request(b)])).result()
    with torch.inference_mode():
        worker.runner.pool.k[1][a.pages[0] * 4 + 1] = float("nan")
    result = worker.submit(driver.batch([(b, 1), (a, 1)])).result()
    assert result.errors == {1: "the model computed values that are not finite for this request"}
    assert result.tokens[0] >= 0


def test_masks_follow_their_rows(worker: TorchWorker) -> None:
    driver = Driver(worker.runner)
    a, b, c = driver.start(PROMPT), driver.start([5, 6]), driver.start([7, 8, 9])
    batch = driver.batch([(b, 2), (a, 4), (c, 3)], [request(a), request(b), request(c)])
    masks = np.zeros((2, 7), dtype=np.int32)
    masks[0, 5] = 1 << 3  # token 163
    batch.masks, batch.mask_rows = masks, [2, 1]
    result = worker.submit(batch).result()
    assert result.tokens[2] == 163
    assert result.tokens[1] == -1


def test_a_slot_can_be_freed_and_taken_in_one_step(worker: TorchWorker) -> None:
    driver = Driver(worker.runner)
    a = driver.start(PROMPT)
    worker.submit(driver.batch([(a, 7)], [request(a, logit_processor="none_such")])).result()
    b = driver.start(PROMPT)
    b.slot = a.slot
    batch = driver.batch([(b, 7)], [request(b)])
    batch.freed_slots = [a.slot]
    result = worker.submit(batch).result()
    assert not result.errors
    assert result.tokens[0] >= 0


def test_a_broken_step_raises_and_the_next_one_runs(worker: TorchWorker) -> None:
    driver = Driver(worker.runner)
    a = driver.start(PROMPT)
    batch: StepBatch = driver.batch([(a, 7)], [request(a)])
    batch.write_slots = batch.write_slots[:3]
    with pytest.raises(ValueError, match="3 write slots"):
        worker.submit(batch).result()
    b = driver.start(PROMPT)
    assert worker.submit(driver.batch([(b, 7)], [request(b)])).result().tokens[0] >= 0


class TestControl:
    def test_get_weight(self, worker: TorchWorker, oracle: tuple[Path, Any]) -> None:
        stored = load_file(oracle[0] / "model.safetensors")["model.layers.1.self_attn.v_proj.weight"]
        got = worker.control("get_weight", {"name": "model.layers.1.self_attn.v_proj.weight", "truncate_size": 2})
        assert torch.equal(torch.tensor(got), stored[:2])
        with pytest.raises(ValueError, match=r"no weight 'lm_heat'"):
            worker.control("get_weight", {"name": "lm_heat"})

    def test_update_weights_from_disk_and_back_when_they_do_not_fit(
        self, worker: TorchWorker, oracle: tuple[Path, Any], tmp_path: Path
    ) -> None:
        def logits() -> torch.Tensor:
            driver = Driver(worker.runner)
            return driver.prefill(driver.start(PROMPT))

        before = logits()
        other = tiny_models.make("llama_rope_linear", tmp_path / "other")
        other_logits = want(other, PROMPT)
        tiny_models.make("llama_biases", tmp_path / "misfit")
        with pytest.raises(ValueError, match="no place for"):
            worker.control("update_weights_from_disk", {"model_path": str(tmp_path / "misfit")})
        assert torch.equal(logits(), before)
        worker.control("update_weights_from_disk", {"model_path": str(tmp_path / "other")})
        assert not torch.allclose(logits(), before)
        assert other_logits.shape == before.shape
        stored = load_file(tmp_path / "other" / "model.safetensors")["lm_head.weight"]
        assert torch.equal(torch.tensor(worker.control("get_weight", {"name": "lm_head.weight"})), stored[:100])

    def test_an_operation_it_lacks_is_a_key_error(self, worker: TorchWorker) -> None:
        with pytest.raises(KeyError, match="release_memory"):
            worker.control("release_memory", {})


def test_a_graph_runner_replays_what_it_covers(oracle: tuple[Path, Any], registries: Any) -> None:
    made: list[CountingGraph] = []

    def make(runner: ModelRunner) -> CountingGraph:
        made.append(CountingGraph(runner))
        return made[0]

    info = model_info_from_config(json.loads((oracle[0] / "config.json").read_text()), str(oracle[0]))
    settings = RuntimeSettings(max_total_tokens=1024, max_requests=8, page_size=4)
    worker = TorchWorker(info, settings, registries, graph_runner=make)
    assert "graph: 1 size" in worker.load(lambda what, done, total: None).notes
    driver = Driver(worker.runner)
    a = driver.start(PROMPT)
    first = worker.submit(driver.batch([(a, 7)], [request(a)])).result().tokens[0]
    a.tokens.append(int(first))
    second = worker.submit(driver.batch([(a, 1)])).result().tokens[0]
    worker.close()
    assert (made[0].captured, made[0].replayed) == (True, 1)
    assert second == want(oracle[1], [*PROMPT, int(first)])[-1].argmax()


class CountingGraph:
    """Covers decode batches of one row, and runs them as the runner would."""

    notes: tuple[str, ...] = ("graph: 1 size",)

    def __init__(self, runner: ModelRunner) -> None:
        self.runner, self.captured, self.replayed = runner, False, 0

    def capture(self, progress: Any) -> None:
        self.captured = True

    def covers(self, batch: ForwardBatch) -> bool:
        return batch.decode and len(batch.query_lens) == 1

    def run(self, batch: ForwardBatch) -> torch.Tensor:
        self.replayed += 1
        batch.attention_plan = self.runner.attention.plan(batch)
        return self.runner.model(batch)


def test_dummy_weights_need_no_files(oracle: tuple[Path, Any], registries: Any, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((oracle[0] / "config.json").read_text())
    worker = make_worker(tmp_path, registries, load_format="dummy")
    worker.load(lambda what, done, total: None)
    driver = Driver(worker.runner)
    a = driver.start(PROMPT)
    assert worker.submit(driver.batch([(a, 7)], [request(a)])).result().tokens[0] >= 0
    worker.close()


def test_no_step_before_load(oracle: tuple[Path, Any], registries: Any) -> None:
    worker = make_worker(oracle[0], registries)
    with pytest.raises(RuntimeError, match=r"call load\(\) first"):
        worker.submit(StepBatch.__new__(StepBatch))
    worker.close()


def test_the_error_of_a_failed_load_comes_out(oracle: tuple[Path, Any], registries: Any) -> None:
    worker = make_worker(oracle[0], registries, max_total_tokens=1 << 40)
    with pytest.raises(ValueError, match="max_total_tokens"):
        worker.load(lambda what, done, total: None)
    worker.close()
