"""Log-probabilities of prompt tokens, computed chunk by chunk while a prompt is prefilled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from sgl_core.api.sampling import LogprobOptions
from sgl_core.api.worker import RowLogprobs

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
    wanted = torch.tensor(options.token_ids, dtype=torch.int64, device=hidden.device)
    for start in range(skip, len(targets), _BLOCK):
        stop = min(start + _BLOCK, len(targets))
        scores = logits(hidden[start:stop]).log_softmax(-1)
        tokens = torch.tensor(targets[start:stop], dtype=torch.int64, device=hidden.device)
        row.token_logprobs.extend(scores.gather(1, tokens.unsqueeze(1)).squeeze(1).tolist())
        if options.top:
            values, ids = scores.topk(min(options.top, scores.shape[1]), dim=-1)
            row.top.extend(list(zip(i, v, strict=True)) for i, v in zip(ids.tolist(), values.tolist(), strict=True))
        if options.token_ids:
            chosen = scores.index_select(1, wanted).tolist()
            row.wanted.extend(list(zip(options.token_ids, values, strict=True)) for values in chosen)
    return row
