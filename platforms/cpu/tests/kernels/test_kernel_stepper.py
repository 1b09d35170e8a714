"""The short way of decode steps: the same tokens as the usual way, whatever is done to the logits, and only where tokens are wanted."""

from __future__ import annotations

from threading import Event
from typing import Any

import numpy as np
import pytest
import torch

from sgl_core.api.sampling import LogprobOptions, SamplingParams
from sgl_core.api.worker import NewRequest, StepBatch
from sgl_torch.stepping import NOT_FINITE
from sgl_torch.testing.driver import Driver, Sequence

GREEDY = SamplingParams(temperature=0.0)


class Play:
    """Three requests of a worker, prefilled; ``decode`` makes the next step."""

    def __init__(self, worker: Any, sampling: SamplingParams = GREEDY, **request: Any) -> None:
        self.worker = worker
        self.driver = Driver(worker.runner)
        self.sequences: list[Sequence] = [self.driver.start([3 + n, 50, 7 * n + 1]) for n in range(3)]
        new = [
            NewRequest(
                slot=s.slot, rid=str(s.slot), prompt_ids=list(s.tokens), output_ids=[], sampling=sampling, **request
            )
            for s in self.sequences
        ]
        self.first = worker.submit(self.driver.batch([(s, 3) for s in self.sequences], new)).result()

    def batch(self) -> StepBatch:
        for sequence in self.sequences:
            sequence.tokens.append(-1)
        return self.driver.batch([(s, 1) for s in self.sequences], unknown=[s.slot for s in self.sequences])

    def decode(self, **changes: Any) -> Any:
        step = self.batch()
        for name, value in changes.items():
            setattr(step, name, value)
        return self.worker.submit(step).result()

    @property
    def short(self) -> bool:
        """Whether any step went the short way."""
        return any(head for _, head in self.worker.runner.graph._tapes)


def test_tokens_of_the_usual_way(worker_of: Any) -> None:
    short, usual = Play(worker_of("qwen3")), Play(worker_of("qwen3", disable_decode_cuda_graph=True))
    for _ in range(10):
        assert short.decode().tokens.tolist() == usual.decode().tokens.tolist()
    assert short.short
    assert not usual.short


@pytest.mark.parametrize(
    ("sampling", "request_fields"),
    [
        (SamplingParams(temperature=0.7, seed=1), {}),
        (SamplingParams(temperature=0.0, frequency_penalty=0.5), {}),
        (SamplingParams(temperature=0.0, logit_bias={5: 3.0}), {}),
        (SamplingParams(temperature=0.0, min_new_tokens=4), {"eos_token_ids": (2,)}),
        (GREEDY, {"logprobs": LogprobOptions(output=True, top=2)}),
    ],
)
def test_whatever_is_done_to_the_logits(
    sampling: SamplingParams, request_fields: dict[str, Any], worker_of: Any
) -> None:
    short = Play(worker_of("llama"), sampling, **request_fields)
    usual = Play(worker_of("llama", disable_decode_cuda_graph=True), sampling, **request_fields)
    for _ in range(6):
        mine, theirs = short.decode(), usual.decode()
        assert mine.tokens.tolist() == theirs.tokens.tolist()
        assert mine.logprobs == theirs.logprobs
    assert short.short
    assert not usual.short


def test_vectors_and_steps_with_new_requests_go_the_usual_way(worker_of: Any) -> None:
    play = Play(worker_of("llama"), embed=True)
    assert list(play.decode().embeddings) == [0, 1, 2]
    play = Play(worker_of("llama"))
    sequence = play.driver.start([7])
    new = NewRequest(slot=sequence.slot, rid="n", prompt_ids=[7], output_ids=[], sampling=GREEDY)
    play.worker.submit(play.driver.batch([(sequence, 1)], [new])).result()
    assert play.decode(sample=np.array([True, False, True])).tokens[1] == -1
    assert not play.short


def test_masks(worker_of: Any) -> None:
    play = Play(worker_of("llama"))
    masks = np.zeros((1, 7), np.int32)
    masks[0, 1] = 1 << 3
    assert play.decode(masks=masks, mask_rows=[2]).tokens[2] == 35
    ready = Event()
    late = np.zeros((1, 7), np.int32)
    step = play.batch()
    step.masks, step.mask_rows, step.masks_ready = late, [1], ready
    pending = play.worker.submit(step)
    late[0, 2] = 1 << 5
    ready.set()
    assert pending.result().tokens[1] == 69
    assert play.short


def test_a_refused_request_fails_alone(worker_of: Any) -> None:
    play = Play(worker_of("llama"))
    want = Play(worker_of("llama")).decode().tokens
    play.worker._stepper._refused[1] = "not served"
    result = play.decode()
    assert result.errors == {1: "not served"}
    assert result.refused == {1}
    assert result.tokens.tolist() == [want[0], -1, want[2]]


def test_a_row_whose_logit_processor_fails_is_told(worker_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(worker_of("llama"), SamplingParams(temperature=0.7, seed=1))
    sampler = play.worker._stepper._sampler
    draw = sampler.sample

    def failing(*args: Any) -> Any:
        drawn = draw(*args)
        sampler.errors = {2: "its processor raised"}
        return drawn

    monkeypatch.setattr(sampler, "sample", failing)
    result = play.decode()
    assert (result.errors, result.refused) == ({2: "its processor raised"}, {2})
    assert result.tokens[2] == -1
    assert play.short


def test_ways_can_change_from_step_to_step(worker_of: Any) -> None:
    """The token of a short step is known to a usual one that follows, and the other way round."""
    mixed, usual = Play(worker_of("llama")), Play(worker_of("llama", disable_decode_cuda_graph=True))
    everything = np.full((1, 7), -1, np.int32)
    for number in range(8):
        changes = {"masks": everything, "mask_rows": [0]} if number % 2 else {}
        assert mixed.decode(**changes).tokens.tolist() == usual.decode().tokens.tolist()
    assert mixed.short


@pytest.mark.parametrize("graphs", [True, False])
def test_a_row_that_is_not_finite_fails_alone(graphs: bool, worker_of: Any) -> None:
    play = Play(worker_of("llama", disable_decode_cuda_graph=not graphs))
    want = Play(worker_of("llama")).decode().tokens
    page = play.sequences[1].pages[0]
    size = play.worker.runner.page_size
    with torch.inference_mode():
        play.worker.runner.pool.v[0][page * size : (page + 1) * size] = float("nan")
    result = play.decode()
    assert result.errors == {1: NOT_FINITE}
    assert result.tokens.tolist() == [want[0], -1, want[2]]
    assert play.short == graphs
    assert torch.isfinite(torch.tensor(play.decode().tokens[[0, 2]])).all()
