"""Presence, frequency and repetition penalties: token counts per request, kept only for requests that want a penalty."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from sgl_core.api.sampling import SamplingParams


class Penalties:
    """Counts of generated tokens and of prompt tokens, [entries, V]; an entry belongs to a slot while its request lives.

    Presence and frequency count generated tokens, repetition counts prompt and generated ones (Keskar et al. 2019: positive
    logits are divided, negative ones multiplied).
    """

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        self._device = device
        self._generated = torch.zeros((0, vocab_size), dtype=torch.int32, device=device)
        self._in_prompt = torch.zeros((0, vocab_size), dtype=torch.bool, device=device)
        self._weights = np.zeros((0, 3), np.float32)
        self._entry: dict[int, int] = {}
        self._unused: list[int] = []

    def __contains__(self, slot: int) -> bool:
        return slot in self._entry

    def __bool__(self) -> bool:
        return bool(self._entry)

    def admit(self, slot: int, sampling: SamplingParams, prompt_ids: list[int], output_ids: list[int]) -> None:
        """Take a request in if it wants a penalty."""
        weights = (sampling.presence_penalty, sampling.frequency_penalty, sampling.repetition_penalty)
        if weights == (0.0, 0.0, 1.0):
            return
        entry = self._unused.pop() if self._unused else self._grow()
        self._entry[slot] = entry
        self._weights[entry] = weights
        self._generated[entry] = 0
        self._in_prompt[entry] = False
        ids = self._known(output_ids)
        self._generated[entry].scatter_add_(0, ids, torch.ones_like(ids, dtype=torch.int32))
        if sampling.repetition_penalty != 1.0:
            self._in_prompt[entry, self._known(prompt_ids)] = True

    def free(self, slot: int) -> None:
        entry = self._entry.pop(slot, None)
        if entry is not None:
            self._unused.append(entry)

    def apply(self, logits: torch.Tensor, slots: NDArray[np.int64]) -> None:
        """Change the rows of ``logits`` [R, V] whose slots have penalties, in place."""
        rows = [row for row, slot in enumerate(slots.tolist()) if slot in self._entry]
        if not rows:
            return
        entries = [self._entry[int(slots[row])] for row in rows]
        weights = torch.from_numpy(self._weights[entries]).to(self._device)
        presence, frequency, repetition = (weights[:, i : i + 1] for i in range(3))
        places = torch.tensor(entries, device=self._device)
        counts = self._generated[places]
        generated = counts > 0
        seen = generated | self._in_prompt[places]
        index = torch.tensor(rows, device=self._device)
        chosen = logits[index]
        chosen = torch.where(seen, torch.where(chosen > 0, chosen / repetition, chosen * repetition), chosen)
        chosen -= frequency * counts + presence * generated
        logits[index] = chosen

    def count(self, slots: NDArray[np.int64], tokens: torch.Tensor) -> None:
        """Add the tokens [R] that were drawn for ``slots``."""
        pairs = [(self._entry[slot], row) for row, slot in enumerate(slots.tolist()) if slot in self._entry]
        if pairs:
            entries, rows = (torch.tensor(side, device=self._device) for side in zip(*pairs, strict=True))
            self._generated[entries, tokens[rows]] += 1

    def _known(self, ids: list[int]) -> torch.Tensor:
        """Ids that have a logit; placeholders of images and the like may lie beyond the vocabulary."""
        known = torch.tensor(ids, dtype=torch.int64, device=self._device)
        return known[(known >= 0) & (known < self._generated.shape[1])]

    def _grow(self) -> int:
        old = len(self._weights)
        new = max(4, 2 * old)
        self._generated = _longer(self._generated, new)
        self._in_prompt = _longer(self._in_prompt, new)
        self._weights = np.concatenate([self._weights, np.zeros((new - old, 3), np.float32)])
        self._unused.extend(range(new - 1, old, -1))
        return old


def _longer(table: torch.Tensor, rows: int) -> torch.Tensor:
    longer = table.new_zeros((rows, table.shape[1]))
    longer[: table.shape[0]] = table
    return longer
