"""Sampler: the reference implementation of the ``samplers`` registry. One instance serves all requests of a worker.

Order of a step: raw logits give the log-probabilities; then repetition, frequency and presence penalties, logit bias, the ban on
ending before ``min_new_tokens``, logit processors, the grammar's mask; then arg max, or temperature and the limits of
:mod:`.draw`. A row's token depends on its own logits, its parameters, its seed and how many tokens it has generated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from sgl_core.api.worker import NewRequest, RowLogprobs

from .draw import draw, probabilities
from .logprobs import score_rows
from .masks import apply_masks
from .penalties import Penalties
from .processors import FindProcessor, Processing, no_processor
from .randomness import uniforms
from .slots import SlotTable


class Sampler:
    """Made once per worker. ``entropy`` makes requests without a seed repeatable too (ranks that draw alike need the same one)."""

    def __init__(
        self,
        vocab_size: int,
        max_requests: int,
        device: torch.device | str = "cpu",
        *,
        entropy: int | None = None,
    ) -> None:
        self.vocab_size = vocab_size
        self.device = torch.device(device)
        self._slots = SlotTable(vocab_size, max_requests, entropy)
        self._penalties = Penalties(vocab_size, self.device)
        self._processing = Processing(vocab_size)
        self.find_processor: FindProcessor = no_processor
        """Set by the worker."""
        self.errors: dict[int, str] = {}
        """Rows of the last :meth:`sample` whose logit processor failed, and how."""

    def admit(self, request: NewRequest) -> None:
        """Remember a request's parameters; ``output_ids`` of one that resumes count as generated.

        Raises ValueError naming what cannot be served: an id outside the vocabulary, an unknown logit processor.
        """
        self._processing.admit(request, self.find_processor)
        self._slots.admit(request)
        self._penalties.free(request.slot)
        self._penalties.admit(request.slot, request.sampling, request.prompt_ids, request.output_ids)

    def free(self, slot: int) -> None:
        """Forget a slot; an empty one is no error."""
        self._slots.free(slot)
        self._penalties.free(slot)
        self._processing.free(slot)

    @torch.inference_mode()
    def sample(
        self,
        logits: torch.Tensor,
        slots: Sequence[int] | NDArray[np.integer],
        masks: NDArray[np.int32] | None = None,
        mask_rows: Sequence[int] = (),
    ) -> tuple[torch.Tensor, dict[int, RowLogprobs]]:
        """Draw one token a row from ``logits`` [R, V] fp32, which may be overwritten.

        ``slots`` [R] are the rows' requests; ``masks[i]`` constrains row ``mask_rows[i]``. Returns tokens [R] int64 on the logits'
        device and the log-probabilities of rows whose requests want them. A row for which nothing is allowed gets the first
        of its end tokens (0 where it has none): its grammar refuses it and ends the request.
        """
        table, index = self._slots, np.asarray(slots, dtype=np.int64)
        self.errors = {}
        scored = np.flatnonzero(table.wants_logprobs[index]).tolist()
        raw = logits[torch.tensor(scored, device=logits.device)] if scored else None
        logits = self._edit(logits, index)
        if masks is not None and len(mask_rows):
            self._mask(logits, masks, mask_rows)
        tokens = self._choose(logits, index)
        if masks is not None or table.edited[index].any():
            tokens = self._rescue(logits, index, tokens)
        table.generated[index] += 1
        if self._penalties:
            self._penalties.count(index, tokens)
        if self._processing:
            self._processing.count(index.tolist(), tokens)
        if raw is None:
            return tokens, {}
        return tokens, {
            row: self._score(raw[i : i + 1], tokens[row : row + 1], int(index[row])) for i, row in enumerate(scored)
        }

    def _mask(self, logits: torch.Tensor, masks: NDArray[np.int32], rows: Sequence[int]) -> None:
        """What masks do not allow becomes minus infinity, in place."""
        apply_masks(logits, masks, list(rows))

    def _choose(self, logits: torch.Tensor, index: NDArray[np.int64]) -> torch.Tensor:
        """Arg max (the lowest id among equals) for greedy rows, a draw for the others."""
        table = self._slots
        sampled = np.flatnonzero(~table.greedy[index])
        if not len(sampled):
            return logits.argmax(-1)
        chosen = index[sampled]
        uniform = uniforms(table.seed[chosen], table.generated[chosen])
        if len(sampled) == len(index):
            return draw(probabilities(logits, table.limits(index)), uniform)
        tokens = logits.argmax(-1)
        rows = torch.from_numpy(sampled).to(logits.device)
        tokens[rows] = draw(probabilities(logits[rows], table.limits(chosen)), uniform)
        return tokens

    def _edit(self, logits: torch.Tensor, index: NDArray[np.int64]) -> torch.Tensor:
        """Penalties, bias, the minimum length and processors, in place where possible."""
        if self._penalties:
            self._penalties.apply(logits, index)
        table = self._slots
        edited = np.flatnonzero(table.edited[index]).tolist()
        if not edited:
            return logits
        for row in edited:
            slot = int(index[row])
            bias = table.bias.get(slot)
            if bias is not None:
                logits[row, torch.from_numpy(bias[0]).to(logits.device)] += torch.from_numpy(bias[1]).to(logits.device)
            if table.generated[slot] < table.min_new[slot]:
                logits[row, torch.from_numpy(table.ends[slot]).to(logits.device)] = float("-inf")
        if self._processing:
            self.errors = self._processing.apply(logits, index.tolist())
        return logits

    def _rescue(self, logits: torch.Tensor, index: NDArray[np.int64], tokens: torch.Tensor) -> torch.Tensor:
        """Rows where nothing is left to draw from get an end token."""
        chosen = logits.gather(1, tokens.unsqueeze(1)).squeeze(1)
        empty = (chosen == float("-inf")).nonzero().squeeze(1).tolist()
        for row in empty:
            ends = self._slots.requests[int(index[row])].eos_token_ids
            tokens[row] = ends[0] if ends else 0
        return tokens

    def _score(self, logits: torch.Tensor, token: torch.Tensor, slot: int) -> RowLogprobs:
        options = self._slots.logprobs[slot]
        return score_rows(logits, token, top=options.top, token_ids=options.token_ids)
