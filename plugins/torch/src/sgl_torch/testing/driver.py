"""Driver: plays scheduler for tests. It hands out pages, builds step batches by hand and remembers each sequence's state."""

from __future__ import annotations

import random
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field

import numpy as np
import torch

from sgl_core.api.worker import NewRequest, StepBatch

from ..model_runner import ModelRunner


@dataclass(slots=True)
class Sequence:
    """One sequence: all its tokens, how many lie in the cache, and its pages."""

    slot: int
    tokens: list[int]
    cached: int = 0
    pages: list[int] = field(default_factory=list)


class Driver:
    """Pages come in a shuffled order, so that nothing works only because pages happen to lie in a row."""

    def __init__(self, runner: ModelRunner, seed: int = 0) -> None:
        self.runner = runner
        self.page_size = runner.page_size
        self._free = list(range(runner.pool.num_slots // runner.page_size))
        random.Random(seed).shuffle(self._free)
        self._slots = 0
        self._step = 0

    def start(self, tokens: SequenceOf[int], prefix: Sequence | None = None) -> Sequence:
        """A new sequence. With ``prefix`` it shares that sequence's full pages as far as the tokens agree (not all tokens)."""
        sequence = Sequence(self._slots, list(tokens))
        self._slots += 1
        if prefix is not None:
            agree = 0
            for ours, theirs in zip(tokens[:-1], prefix.tokens[: prefix.cached], strict=False):
                if ours != theirs:
                    break
                agree += 1
            pages = agree // self.page_size
            sequence.pages = prefix.pages[:pages]
            sequence.cached = pages * self.page_size
        return sequence

    def batch(
        self, rows: SequenceOf[tuple[Sequence, int]], new: SequenceOf[NewRequest] = (), unknown: SequenceOf[int] = ()
    ) -> StepBatch:
        """A step in which each sequence advances by some tokens; rows whose slot is in ``unknown`` send -1 as their token."""
        self._step += 1
        tokens: list[int] = []
        writes: list[int] = []
        for sequence, count in rows:
            end = sequence.cached + count
            while len(sequence.pages) * self.page_size < end:
                sequence.pages.append(self._free.pop())
            tokens += [-1] if sequence.slot in unknown else sequence.tokens[sequence.cached : end]
            for position in range(sequence.cached, end):
                writes.append(sequence.pages[position // self.page_size] * self.page_size + position % self.page_size)
        table = np.zeros((len(rows), max(len(s.pages) for s, _ in rows)), dtype=np.int32)
        for i, (sequence, _) in enumerate(rows):
            table[i, : len(sequence.pages)] = sequence.pages
        step = StepBatch(
            step_id=self._step,
            slots=_ints([s.slot for s, _ in rows]),
            token_ids=_ints(tokens),
            query_lens=_ints([n for _, n in rows]),
            context_lens=_ints([s.cached for s, _ in rows]),
            page_table=table,
            write_slots=_ints(writes),
            sample=np.array([s.cached + n >= len(s.tokens) for s, n in rows], dtype=np.bool_),
            new_requests=list(new),
        )
        for sequence, count in rows:
            sequence.cached += count
        return step

    def logits(self, rows: SequenceOf[tuple[Sequence, int]]) -> list[torch.Tensor]:
        """Run a step; fp32 logits [n, vocab] of each row's tokens."""
        everything = self.runner.forward_logits(self.batch(rows))
        return list(torch.split(everything, [n for _, n in rows]))

    def prefill(self, sequence: Sequence, chunk: int = 1 << 30) -> torch.Tensor:
        """Run the rest of the sequence alone, in chunks; logits of all its new tokens."""
        parts = []
        while sequence.cached < len(sequence.tokens):
            parts += self.logits([(sequence, min(chunk, len(sequence.tokens) - sequence.cached))])
        return torch.cat(parts)

    def greedy(self, sequences: SequenceOf[Sequence], steps: int, last: SequenceOf[torch.Tensor]) -> list[list[int]]:
        """Decode together; ``last`` are the logits [vocab] after each prompt. Returns the new tokens of each sequence."""
        chosen = [int(row.argmax()) for row in last]
        out = [[token] for token in chosen]
        for _ in range(steps - 1):
            for sequence, token in zip(sequences, chosen, strict=True):
                sequence.tokens.append(token)
            rows = self.logits([(sequence, 1) for sequence in sequences])
            chosen = [int(row[-1].argmax()) for row in rows]
            for tokens, token in zip(out, chosen, strict=True):
                tokens.append(token)
        return out


def _ints(values: SequenceOf[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    return np.array(values, dtype=np.int32)
