"""SlotTable: the sampling parameters of the requests in flight, as arrays over request slots."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sgl_core.api.sampling import LogprobOptions
from sgl_core.api.worker import NewRequest

from .draw import Limits

_WORD = (1 << 64) - 1


class SlotTable:
    """Arrays [max_requests]; a row is written at admission and read every step. ``entropy`` seeds requests without a seed."""

    def __init__(self, vocab_size: int, max_requests: int, entropy: int | None = None) -> None:
        self.vocab_size = vocab_size
        self.max_requests = max_requests
        self._random = np.random.default_rng(entropy)
        self.temperature = np.ones(max_requests, np.float32)
        self.top_k = np.zeros(max_requests, np.int64)
        self.top_p = np.ones(max_requests, np.float32)
        self.min_p = np.zeros(max_requests, np.float32)
        self.greedy = np.ones(max_requests, bool)
        self.seed = np.zeros(max_requests, np.uint64)
        self.generated = np.zeros(max_requests, np.int64)
        self.min_new = np.zeros(max_requests, np.int64)
        self.edited = np.zeros(max_requests, bool)
        """Whether anything but a mask changes the slot's logits before the draw."""
        self.wants_logprobs = np.zeros(max_requests, bool)
        self.requests: dict[int, NewRequest] = {}
        self.bias: dict[int, tuple[NDArray[np.int64], NDArray[np.float32]]] = {}
        self.ends: dict[int, NDArray[np.int64]] = {}
        self.logprobs: dict[int, LogprobOptions] = {}

    def admit(self, request: NewRequest) -> None:
        """Write a request's row. Raises ValueError naming the parameter that cannot be served."""
        self.check(request)
        slot, sampling = request.slot, request.sampling
        self.free(slot)
        self.requests[slot] = request
        self.greedy[slot] = sampling.greedy
        self.temperature[slot] = 1.0 if sampling.greedy else sampling.temperature
        self.top_k[slot] = max(sampling.top_k, 0)
        self.top_p[slot] = sampling.top_p
        self.min_p[slot] = sampling.min_p
        drawn = int(self._random.integers(0, _WORD, dtype=np.uint64, endpoint=True))
        self.seed[slot] = drawn if sampling.seed is None else sampling.seed & _WORD
        self.generated[slot] = len(request.output_ids)
        self.min_new[slot] = sampling.min_new_tokens
        if sampling.min_new_tokens > 0:
            ends = sorted({*request.eos_token_ids, *sampling.stop_token_ids})
            self.ends[slot] = np.array([index for index in ends if 0 <= index < self.vocab_size], np.int64)
        if sampling.logit_bias:
            ids, values = zip(*sampling.logit_bias.items(), strict=True)
            self.bias[slot] = np.array(ids, np.int64), np.array(values, np.float32)
        self.edited[slot] = (
            bool(sampling.logit_bias) or sampling.min_new_tokens > 0 or request.logit_processor is not None
        )
        self.wants_logprobs[slot] = request.logprobs.output
        self.logprobs[slot] = request.logprobs

    def check(self, request: NewRequest) -> None:
        """Raises ValueError where a value would break the step for others."""
        sampling = request.sampling
        if not 0 <= request.slot < self.max_requests:
            raise ValueError(f"slot {request.slot} is not below {self.max_requests}")
        for name, ids in (
            ("logit_bias", sampling.logit_bias or ()),
            ("token_ids of the logprobs", request.logprobs.token_ids),
        ):
            bad = next((index for index in ids if not 0 <= index < self.vocab_size), None)
            if bad is not None:
                raise ValueError(f"{name}: token id {bad} is not in the vocabulary of {self.vocab_size}")
        if not sampling.temperature >= 0.0 or not np.isfinite(sampling.temperature):
            raise ValueError(f"temperature must be a finite number from 0 up, not {sampling.temperature}")
        if not sampling.repetition_penalty > 0.0:
            raise ValueError(f"repetition_penalty must be above 0, not {sampling.repetition_penalty}")
        if not 0.0 < sampling.top_p <= 1.0:
            raise ValueError(f"top_p must be above 0 and at most 1, not {sampling.top_p}")
        if not 0.0 <= sampling.min_p <= 1.0:
            raise ValueError(f"min_p must be from 0 to 1, not {sampling.min_p}")

    def free(self, slot: int) -> None:
        for table in (self.requests, self.bias, self.ends, self.logprobs):
            table.pop(slot, None)
        self.edited[slot] = self.wants_logprobs[slot] = False
        self.greedy[slot] = True

    def limits(self, slots: NDArray[np.int64]) -> Limits:
        return Limits(self.temperature[slots], self.top_k[slots], self.top_p[slots], self.min_p[slots])
