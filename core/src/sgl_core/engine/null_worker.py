"""The null platform: a worker that computes nothing but answers deterministically from what it finds in its KV pages.

The next token is a hash of all tokens before it, read through the page table it is given, so a wrong page, slot or length
changes the answer. Scheduling is proved and measured with it, without a model.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgl_core.api.facts import Facts
from sgl_core.api.worker import Capacity, Ints, NewRequest, ProgressSink, RowLogprobs, Step, StepBatch, StepResult

Hashes = NDArray[np.uint64]
EMBEDDING_SIZE = 8


def scramble(values: Hashes) -> Hashes:
    """A well mixed 64-bit hash of each value (the finalizer of splitmix64, Steele et al. 2014)."""
    x = values.copy()
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def weights(positions: NDArray[np.integer[Any]]) -> Hashes:
    """The odd factor by which the token at each position enters the hash of its prefix."""
    return scramble(positions.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)


def token_of(prefix: int | Hashes, vocab_size: int, salt: int = 0) -> NDArray[np.int32]:
    """The token that follows prefixes of these hashes; ``salt`` stands for a seed and a count."""
    mixed = scramble(np.atleast_1d(np.asarray(prefix, dtype=np.uint64)) + np.uint64(salt % 2**64))
    return (mixed % np.uint64(vocab_size)).astype(np.int32)


def prefix_hash(tokens: Sequence[int]) -> int:
    """The hash of a whole prefix: the sum of (token + 1) * weight(position), modulo 2**64."""
    values = np.asarray(tokens, dtype=np.int64).astype(np.uint64) + np.uint64(1)
    return int((values * weights(np.arange(len(values)))).sum(dtype=np.uint64))


@dataclass(frozen=True, kw_only=True)
class NullOptions:
    """``check`` reads every token of every row at each step (slow, for tests); else each token's hash builds on its
    predecessor's. ``step_seconds`` is how long a step pretends to take, ``load_seconds`` the load."""

    num_pages: int = 4096
    page_size: int = 16
    max_requests: int = 256
    context_length: int = 8192
    vocab_size: int = 32000
    step_seconds: float = 0.0
    load_seconds: float = 0.0
    check: bool = False


class _Done:
    """A step that is over once its pretended time is."""

    def __init__(self, result: StepResult, until: float) -> None:
        self._result = result
        self._until = until

    def done(self) -> bool:
        return time.monotonic() >= self._until

    def result(self) -> StepResult:
        time.sleep(max(0.0, self._until - time.monotonic()) if self._until else 0.0)
        return self._result


class NullWorker:
    """See the module. ``log`` holds control calls, for tests."""

    def __init__(self, options: NullOptions | None = None) -> None:
        self.options = options or NullOptions()
        size = self.options.num_pages * self.options.page_size
        self._tokens = np.full(size, -1, np.int32)
        self._prefix = np.zeros(size, np.uint64)
        self._requests: dict[int, NewRequest] = {}
        self._drawn = np.zeros(self.options.max_requests, np.int64)
        self._last = np.zeros(self.options.max_requests, np.int32)
        self._plain = np.ones(self.options.max_requests, np.bool_)
        self._floor = np.zeros(self.options.max_requests, np.int64)
        self._random = np.random.default_rng(0)
        self._free_at = 0.0
        self.log: list[tuple[str, dict[str, Any]]] = []

    def load(self, progress: ProgressSink) -> Capacity:
        steps = 4 if self.options.load_seconds else 0
        for number in range(steps):
            progress("null weights", number, steps)
            time.sleep(self.options.load_seconds / steps)
        o = self.options
        return Capacity(
            num_pages=o.num_pages,
            page_size=o.page_size,
            max_requests=o.max_requests,
            context_length=o.context_length,
            vocab_size=o.vocab_size,
            notes=("null worker: answers are hashes",),
        )

    def submit(self, batch: StepBatch) -> Step:
        for slot in batch.freed_slots:
            self._requests.pop(slot, None)
        for new in batch.new_requests:
            self._admit(new)
        rows = self._row_tokens(batch)
        prefixes = self._write(batch, rows)
        result = self._sample(batch, prefixes)
        until = 0.0
        if self.options.step_seconds:
            until = max(time.monotonic(), self._free_at) + self.options.step_seconds
            self._free_at = until
        return _Done(result, until)

    def control(self, op: str, args: dict[str, Any]) -> Any:
        if op != "null_log":
            raise KeyError(op)
        self.log.append((op, args))
        return len(self.log)

    def close(self) -> None:
        self._requests.clear()

    def _admit(self, new: NewRequest) -> None:
        if new.slot in self._requests:
            raise RuntimeError(f"slot {new.slot} was given to {new.rid} while {self._requests[new.slot].rid} has it")
        self._requests[new.slot] = new
        self._drawn[new.slot] = len(new.output_ids)
        self._floor[new.slot] = new.sampling.min_new_tokens
        self._plain[new.slot] = (
            new.sampling.greedy
            and not new.embed
            and not new.logprobs.output
            and new.logprobs.prompt_start < 0
            and not new.sampling.min_new_tokens
        )

    def _row_tokens(self, batch: StepBatch) -> Ints:
        """The new tokens, with placeholders replaced by what each slot drew last."""
        tokens = batch.token_ids
        holes = np.flatnonzero(tokens < 0)
        if len(holes):
            tokens = tokens.copy()
            rows = np.repeat(np.arange(len(batch.slots)), batch.query_lens)
            tokens[holes] = self._last[batch.slots[rows[holes]]]
        return tokens

    def _write(self, batch: StepBatch, tokens: Ints) -> Hashes:
        """Store the new tokens; the hash of the prefix that each of them ends."""
        if batch.page_copies is not None and len(batch.page_copies):
            self._copy_pages(batch.page_copies)
        lens = batch.query_lens
        single = len(tokens) == len(lens)
        rows = np.arange(len(lens)) if single else np.repeat(np.arange(len(lens)), lens)
        if single:
            positions = batch.context_lens
        else:
            starts = np.cumsum(lens) - lens
            positions = batch.context_lens[rows] + np.arange(len(tokens)) - starts[rows]
        slots = self._slot_of(batch, rows, positions)
        if not np.array_equal(slots, batch.write_slots):
            raise RuntimeError("write slots do not lie where the page table says")
        if len(np.unique(slots)) != len(slots):
            raise RuntimeError("two tokens are written to one slot")
        self._tokens[slots] = tokens
        own = (tokens.astype(np.uint64) + np.uint64(1)) * weights(positions)
        before = self._before(batch)
        if single:
            prefixes = before + own
        else:
            running = np.cumsum(own, dtype=np.uint64)
            ahead = running[starts] - own[starts]
            prefixes = before[rows] + running - ahead[rows]
        self._prefix[slots] = prefixes
        return prefixes

    def _before(self, batch: StepBatch) -> Hashes:
        """The hash of each row's context, read through its pages."""
        context = batch.context_lens
        if not self.options.check:
            last = np.maximum(context - 1, 0)
            hashes = self._prefix[self._slot_of(batch, np.arange(len(context)), last)]
            return np.where(context > 0, hashes, np.uint64(0))
        out = np.zeros(len(context), np.uint64)
        for row, length in enumerate(context.tolist()):
            positions = np.arange(length)
            tokens = self._tokens[self._slot_of(batch, np.full(length, row), positions)]
            if (tokens < 0).any():
                raise RuntimeError(f"row {row} reads a slot that was never written")
            out[row] = ((tokens.astype(np.uint64) + np.uint64(1)) * weights(positions)).sum(dtype=np.uint64)
        return out

    def _slot_of(self, batch: StepBatch, rows: NDArray[Any], positions: NDArray[Any]) -> NDArray[Any]:
        size = self.options.page_size
        slots: NDArray[Any] = batch.page_table[rows, positions // size] * size + positions % size
        return slots

    def _copy_pages(self, copies: Ints) -> None:
        size = self.options.page_size
        for source, target in copies.tolist():
            for column in (self._tokens, self._prefix):
                column[target * size : (target + 1) * size] = column[source * size : (source + 1) * size]

    def _sample(self, batch: StepBatch, prefixes: Hashes) -> StepResult:
        ends = np.cumsum(batch.query_lens) - 1
        final = prefixes[ends]
        tokens = np.where(batch.sample, token_of(final, self.options.vocab_size), np.int32(-1))
        result = StepResult(step_id=batch.step_id, tokens=tokens)
        masks = dict(zip(batch.mask_rows, batch.masks, strict=True)) if batch.masks is not None else {}
        odd = ~self._plain[batch.slots]
        odd[list(masks)] = True
        for row in np.flatnonzero(odd).tolist():
            start = int(ends[row]) + 1 - int(batch.query_lens[row])
            self._odd_row(batch, row, prefixes[start : int(ends[row]) + 1], masks, result)
        drawn = batch.slots[tokens >= 0]
        self._last[drawn] = tokens[tokens >= 0]
        self._drawn[drawn] += 1
        return result

    def _odd_row(
        self, batch: StepBatch, row: int, prefixes: Hashes, masks: Mapping[int, Ints], result: StepResult
    ) -> None:
        """A row that is not a plain greedy one."""
        slot = int(batch.slots[row])
        new = self._requests[slot]
        if new.logprobs.prompt_start >= 0:
            last = len(new.prompt_ids) - 1 - int(batch.context_lens[row])
            if last > 0:
                follow = new.prompt_ids[int(batch.context_lens[row]) + 1 :]
                result.prompt_logprobs[row] = _logprobs(new, prefixes[:last], follow)
        if not batch.sample[row]:
            return
        final = int(prefixes[-1])
        if new.embed:
            result.tokens[row] = -1
            result.embeddings[row] = embedding_of(final)
            return
        count = int(self._drawn[slot])
        salt = 0
        if not new.sampling.greedy:
            seed = new.sampling.seed
            salt = seed * 1_000_003 + count + 1 if seed is not None else int(self._random.integers(1 << 40))
        token = int(token_of(final, self.options.vocab_size, salt)[0])
        banned = frozenset(new.eos_token_ids) if count < self._floor[slot] else frozenset()
        token = _allowed(token, masks.get(row), banned, self.options.vocab_size)
        result.tokens[row] = token
        if new.logprobs.output:
            result.logprobs[row] = _logprobs(new, prefixes[-1:], [token])


def embedding_of(prefix: int) -> NDArray[np.float32]:
    """The vector of a prefix: eight numbers in [0, 1)."""
    values = scramble(np.uint64(prefix) + np.arange(EMBEDDING_SIZE, dtype=np.uint64))
    return (values >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24)


def _allowed(token: int, mask: Ints | None, banned: frozenset[int], vocab_size: int) -> int:
    """The first allowed token from ``token`` on, going round. Raises ValueError where there is none."""
    if mask is None and not banned:
        return token
    bits = None
    if mask is not None:
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[:vocab_size]
    candidate: int
    for candidate in (*range(token, vocab_size), *range(token)):
        if candidate not in banned and (bits is None or bits[candidate]):
            return candidate
    raise ValueError("no token is allowed")


def _logprobs(new: NewRequest, prefixes: Hashes, tokens: Sequence[int]) -> RowLogprobs:
    """Made-up log-probabilities: a function of prefix and token only."""

    def value(prefix: int, token: int) -> float:
        return -float(token_of(prefix, 1000, salt=token + 7)[0]) / 1000

    row = RowLogprobs(token_logprobs=[])
    for prefix, token in zip(prefixes.tolist(), tokens, strict=False):
        row.token_logprobs.append(value(prefix, token))
        if new.logprobs.top:
            row.top.append([(rank, value(prefix, rank)) for rank in range(new.logprobs.top)])
        if new.logprobs.token_ids:
            row.wanted.append([(wanted, value(prefix, wanted)) for wanted in new.logprobs.token_ids])
    return row


class NullRuntime:
    """The runtime of the platform ``null``: sizes from the plan's configuration, small defaults where it has none."""

    def __init__(self, plan: Any) -> None:
        self._plan = plan

    def make_worker(self, rank: int) -> NullWorker:
        config, model = self._plan.config, self._plan.model
        size = config.get("page_size") or 16
        pages = -(-(config.get("max_total_tokens") or 65536) // size)
        return NullWorker(
            NullOptions(
                num_pages=pages,
                page_size=size,
                max_requests=config.get("max_running_requests") or 256,
                context_length=config.get("context_length") or model.context_length or 8192,
                vocab_size=model.vocab_size or 32000,
                step_seconds=self._plan.options.get("null.step_seconds", 0.0),
            )
        )


def probe() -> Facts:
    """Facts of the null platform. It is tried only when it is asked for (``--device null``)."""
    libraries = {"granian": version("granian")} if find_spec("granian") else {}
    return Facts(
        platform="null", name="null", device="null", device_name="no device", device_count=1, libraries=libraries
    )
