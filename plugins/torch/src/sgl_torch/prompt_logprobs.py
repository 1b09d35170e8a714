"""Log-probabilities of prompt tokens, computed chunk by chunk while a prompt is prefilled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from sgl_core.api.sampling import LogprobOptions
from sgl_core.api.worker import RowLogprobs

from .sampling import score_rows

_BLOCK = 128
"""Positions whose logits are held at a time: a prompt's whole logits would not fit for large vocabularies."""


def prompt_logprobs(
    hidden: torch.Tensor,
    logits: Callable[[torch.Tensor], torch.Tensor],
    targets: Sequence[int],
    first_position: int,
    options: LogprobOptions,
) -> RowLogprobs:
    """``hidden`` [n, hidden] predicts ``targets`` [n], the prompt tokens at ``first_position`` and on.

    Positions before ``options.prompt_start`` get None, so that entry i always belongs to ``first_position + i``.
    """
    skip = min(max(0, options.prompt_start - first_position), len(targets))
    row = RowLogprobs(token_logprobs=[None] * skip)
    if options.top:
        row.top.extend([] for _ in range(skip))
    if options.token_ids:
        row.wanted.extend([] for _ in range(skip))
    for start in range(skip, len(targets), _BLOCK):
        stop = min(start + _BLOCK, len(targets))
        tokens = torch.tensor(targets[start:stop], dtype=torch.int64, device=hidden.device)
        scored = score_rows(logits(hidden[start:stop]), tokens, top=options.top, token_ids=options.token_ids)
        row.token_logprobs.extend(scored.token_logprobs)
        row.top.extend(scored.top)
        row.wanted.extend(scored.wanted)
    return row
