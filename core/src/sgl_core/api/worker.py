"""The seam between the scheduler and whatever computes: StepBatch in, StepResult out, arrays of ints only."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .sampling import LogprobOptions, SamplingParams

Ints = NDArray[np.int32]


@dataclass(slots=True, kw_only=True)
class NewRequest:
    """What a worker must remember of a request, sent once with the first step in which it takes part.

    ``slot`` is an index below ``Capacity.max_requests`` that stays the request's until it is listed in
    ``StepBatch.freed_slots``. ``output_ids`` is not empty when a retracted request resumes.
    """

    slot: int
    rid: str
    prompt_ids: list[int]
    output_ids: list[int]
    sampling: SamplingParams
    logprobs: LogprobOptions = LogprobOptions()
    eos_token_ids: tuple[int, ...] = ()
    """The ids that end this request: masked while fewer than ``min_new_tokens`` are out."""
    embed: bool = False
    """True: return the pooled hidden state at the last prompt token instead of sampling, or what a model that pools makes."""
    second_segment: int = 0
    """Where in the prompt the second text of a pair begins; 0 where there is none."""
    lora: str | None = None
    logit_processor: str | None = None


@dataclass(slots=True, kw_only=True)
class StepBatch:
    """One forward step over R rows (requests) and T new tokens, rows back to back.

    Decode rows (one token each) come first, then chunks of answers, then chunks of prompts. A KV slot is ``page * page_size + offset``.
    """

    step_id: int
    slots: Ints
    """[R] the request slot of each row."""
    token_ids: Ints
    """[T] the new tokens; -1 stands for the token that this slot's previous step sampled (overlapped scheduling)."""
    query_lens: Ints
    """[R] how many new tokens each row has; their sum is T."""
    context_lens: Ints
    """[R] how many tokens of the row already lie in the KV cache; the first new token has this position."""
    page_table: Ints
    """[R, P] page ids in order, covering context and new tokens; padded with 0."""
    write_slots: Ints
    """[T] KV slot into which each new token's key and value are written."""
    sample: NDArray[np.bool_]
    """[R] whether the row's last token is sampled from (false for a chunk that does not finish its prompt, and where no token is
    asked for). True for the last chunk of an ``embed`` request too: then its vector is due."""
    prompts_from: int | None = None
    """The first row whose tokens are of a prompt; the rows before go on with answers. A token of a prompt always comes in such a row and
    one of an answer never, so that a worker may compute them differently. None: not said."""
    new_requests: list[NewRequest] = field(default_factory=list)
    freed_slots: list[int] = field(default_factory=list)
    """Slots whose requests ended; they come before ``new_requests``, which may take the same slots."""
    page_copies: Ints | None = None
    """[C, 2] pages (from, to) to copy before the step, or None."""
    masks: NDArray[np.int32] | None = None
    """[len(mask_rows), ceil(V/32)] little-endian bit masks of allowed tokens, or None."""
    mask_rows: list[int] = field(default_factory=list)
    masks_ready: threading.Event | None = None
    """Set once ``masks`` is filled, which may be after the step was submitted: wait for it before reading them. None: they are filled."""


@dataclass(slots=True)
class RowLogprobs:
    """Log-probabilities of one row's sampled token, or of its prompt positions (then one entry per position).

    ``top`` and ``wanted`` are (token id, logprob) pairs, best first and in the order asked.
    """

    token_logprobs: list[float | None]
    top: list[list[tuple[int, float]]] = field(default_factory=list)
    wanted: list[list[tuple[int, float]]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class StepResult:
    """What came of a step. ``tokens`` is [R], -1 where nothing was sampled.

    ``logprobs`` and ``prompt_logprobs`` map a row to its values; the latter's i-th entry belongs to the prompt token at position
    ``context_len + 1 + i`` of that row's chunk (the token that the i-th logits row predicts) as far as the prompt reaches.
    ``embeddings`` maps a row to its float32 vector. ``errors`` maps a row to why that one request failed; for rows in
    ``refused`` the request itself is the cause.
    """

    step_id: int
    tokens: Ints
    logprobs: dict[int, RowLogprobs] = field(default_factory=dict)
    prompt_logprobs: dict[int, RowLogprobs] = field(default_factory=dict)
    embeddings: dict[int, NDArray[np.float32]] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What a loaded worker can hold. ``kv_bytes_per_token`` is over all layers; memory in bytes."""

    num_pages: int
    page_size: int
    max_requests: int
    context_length: int
    vocab_size: int
    kv_bytes_per_token: int = 0
    weight_bytes: int = 0
    sliding_window: int | None = None
    prefill_step_seconds: float = 0.0
    """How long a prefill step should take at most while requests decode, where ``prefill_step_ms`` does not say; 0: no bound."""
    notes: tuple[str, ...] = ()
    """Lines for the start-up table, for example the attention backend in use."""


class Step(Protocol):
    """A step that was started."""

    def done(self) -> bool: ...

    def result(self) -> StepResult:
        """Wait for the step. Raises what the worker raised; the engine then ends the requests of that step. An exception with a true
        attribute ``worker_died``, or the third failing step in a row, ends the worker."""
        ...


class ModelWorker(Protocol):
    """Provided by a platform: loads the model and runs steps. Made in the worker process by ``runtime(plan).make_worker(rank)``.

    A worker that computes in a thread of its own may have a true attribute ``late_masks``: it then gets batches whose masks are still
    being filled while the model runs, and waits for ``StepBatch.masks_ready`` where it samples. One whose compute leaves no core for
    anybody else may have a false attribute ``overlaps``: a step then ends before the next one is built.
    """

    def load(self, progress: ProgressSink) -> Capacity:
        """Weights in, memory measured, KV pages decided."""
        ...

    def submit(self, batch: StepBatch) -> Step:
        """Start a step. At most two are under way; they run in the order submitted."""
        ...

    def control(self, op: str, args: dict[str, Any]) -> Any:
        """Serve a rare operation (``get_weight``, ``update_weights``, ``profile`` ...). Raises KeyError for one it lacks."""
        ...

    def close(self) -> None: ...


class ProgressSink(Protocol):
    """Where long work reports how far it is; ``total`` 0 means unknown."""

    def __call__(self, what: str, done: int, total: int) -> None: ...


class PlatformRuntime(Protocol):
    """What a platform gives the worker process."""

    def make_worker(self, rank: int) -> ModelWorker: ...
