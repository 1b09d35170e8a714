"""The state of one request inside the engine, from its arrival to its single end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sgl_core.api.worker import Ints

from .grammar_state import Constraint
from .messages import Generate, Logprobs
from .prefix_cache import Namespace

QUEUED, PREFILL, DECODE, DONE = "queued", "prefill", "decode", "done"


@dataclass(slots=True, eq=False)
class Request:
    """``arrival``, ``priority``, ``prompt_len``, ``cached_len`` and ``max_new_tokens`` are what a schedule policy looks at."""

    message: Generate
    seq: int
    arrival: float
    max_new_tokens: int
    """Bounded by the context length."""
    namespace: Namespace
    prompt: Ints
    prompt_len: int
    priority: int = 0
    cached_len: int = 0
    state: str = QUEUED
    slot: int = -1
    output_ids: list[int] = field(default_factory=list)
    constraint: Constraint | None = None
    jumps: bool = False
    """Whether tokens that its constraint forces are appended without being sampled."""

    # while it runs
    tokens: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """What its prefill computes: the prompt, and after a retraction the output so far."""
    node: Any = None
    """The locked end of its path in the prefix cache."""
    shared: int = 0
    """Leading tokens whose pages belong to the prefix cache."""
    committed: int = 0
    """Tokens of ``tokens`` whose keys and values have certainly been computed."""
    share_key: tuple[int, bytes] | None = None
    """Under which others find that it computes the prefix they need."""

    # bookkeeping of what is reported
    reported_cached: int = -1
    """Cached tokens of the prompt at its first admission; -1 before."""
    queue_seconds: float = 0.0
    """From its arrival to its first admission."""
    waits: int = 0
    """Steps it has waited for a prefix that another computes."""
    awaits: Request | None = None
    """Whom it waits for."""
    prompt_logprobs: Logprobs | None = None
    logprobs: Logprobs | None = None

    @property
    def rid(self) -> str:
        return self.message.rid

    @property
    def match_limit(self) -> int:
        """How many leading tokens may come from the cache: not the last one, and none whose logprobs must be computed."""
        limit = len(self.prompt) + len(self.output_ids) - 1
        start = self.message.logprobs.prompt_start
        if start >= 0 and not self.output_ids:
            limit = min(limit, max(start - 1, 0))
        return limit

    def all_tokens(self) -> Ints:
        """Prompt and output so far."""
        if not self.output_ids:
            return self.prompt
        return np.concatenate((self.prompt, np.array(self.output_ids, dtype=np.int32)))


def end_ids(message: Generate) -> Sequence[int]:
    """The token ids that end the request: explicit stop ids always, end-of-sequence ids unless ``ignore_eos``."""
    eos = () if message.sampling.ignore_eos else message.eos_token_ids
    return tuple(dict.fromkeys((*eos, *message.sampling.stop_token_ids)))
