"""Short ways to make requests and samplers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sgl_core.api.sampling import LogprobOptions, SamplingParams
from sgl_core.api.worker import NewRequest
from sgl_torch.sampling import Sampler


def make_request(
    slot: int = 0,
    *,
    prompt: tuple[int, ...] = (1,),
    output: tuple[int, ...] = (),
    eos: tuple[int, ...] = (),
    logprobs: LogprobOptions | None = None,
    processor: str | None = None,
    **sampling: Any,
) -> NewRequest:
    return NewRequest(
        slot=slot,
        rid=f"r{slot}",
        prompt_ids=list(prompt),
        output_ids=list(output),
        sampling=SamplingParams(**sampling),
        logprobs=logprobs or LogprobOptions(),
        eos_token_ids=eos,
        logit_processor=processor,
    )


@pytest.fixture
def request_of() -> Callable[..., NewRequest]:
    return make_request


@pytest.fixture
def sampler_of() -> Callable[..., Sampler]:
    """``sampler_of(vocab, {...}, {...})``: a sampler with one admitted request per mapping, in slots 0, 1, ...."""

    def make(vocab: int, *rows: dict[str, Any], processors: dict[str, Any] | None = None, **options: Any) -> Sampler:
        sampler = Sampler(vocab, max(len(rows), 1), **options)
        if processors is not None:
            sampler.find_processor = processors.__getitem__
        for slot, row in enumerate(rows):
            sampler.admit(make_request(slot, **row))
        return sampler

    return make
