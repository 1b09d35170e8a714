"""The short way of plain decode steps: the same tokens as the usual way, and only where nothing else is wanted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sgl_core.api.sampling import LogprobOptions, SamplingParams
from sgl_core.api.worker import NewRequest, StepBatch
from sgl_cpu.kernels.stepper import NOT_FINITE
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
        return any(greedy for _, greedy in self.worker.runner.graph._tapes)


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
        (GREEDY, {"logprobs": LogprobOptions(output=True)}),
        (GREEDY, {"embed": True}),
    ],
)
def test_whoever_wants_more_goes_the_usual_way(
    sampling: SamplingParams, request_fields: dict[str, Any], worker_of: Any
) -> None:
    play = Play(worker_of("llama"), sampling, **request_fields)
    result = play.decode()
    assert not play.short
    assert bool(result.logprobs) == ("logprobs" in request_fields)
    assert bool(result.embeddings) == ("embed" in request_fields)


def test_masks_and_rows_without_sampling(worker_of: Any) -> None:
    play = Play(worker_of("llama"))
    masks = np.zeros((1, 7), np.int32)
    masks[0, 1] = 1 << 3
    result = play.decode(masks=masks, mask_rows=[2])
    assert result.tokens[2] == 35
    assert play.decode(sample=np.array([True, False, True])).tokens[1] == -1
    assert not play.short


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
