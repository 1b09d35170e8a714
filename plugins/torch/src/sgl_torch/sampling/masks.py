"""Grammar bit masks on logits: 32 tokens a word, the lowest bit first; what a mask does not allow becomes minus infinity."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray


def forbidden(masks: NDArray[np.int32], vocab: int, device: torch.device) -> torch.Tensor:
    """bool [M, vocab], true where a token is not allowed. Ids beyond the mask's words are not allowed."""
    octets = torch.from_numpy(np.ascontiguousarray(masks).view(np.uint8)).to(device)
    bits = (octets.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8, device=device)) & 1
    flat = bits.reshape(len(masks), -1)[:, :vocab] == 0
    if flat.shape[1] == vocab:
        return flat
    beyond = torch.ones((len(masks), vocab - flat.shape[1]), dtype=torch.bool, device=device)
    return torch.cat((flat, beyond), dim=1)


def apply_masks(logits: torch.Tensor, masks: NDArray[np.int32], rows: list[int]) -> None:
    """Mask the given rows of ``logits`` [R, V] in place; mask i belongs to row ``rows[i]``."""
    index = torch.tensor(rows, dtype=torch.int64, device=logits.device)
    banned = forbidden(masks[: len(rows)], logits.shape[1], logits.device)
    logits[index] = logits[index].masked_fill(banned, float("-inf"))
