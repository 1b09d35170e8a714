"""Log-probabilities as requests want them: of the model's own distribution, before temperature, penalties, bias and masks.

``-inf`` (a token the model itself rules out) is given as :data:`LOWEST_LOGPROB`, so that every answer is valid JSON.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sgl_core.api.worker import RowLogprobs

LOWEST_LOGPROB = -9999.0
"""Stands for minus infinity."""


def score_rows(
    logits: torch.Tensor, tokens: torch.Tensor, *, top: int = 0, token_ids: Sequence[int] = ()
) -> RowLogprobs:
    """Score one request's positions: ``logits`` [n, V] of any float dtype, ``tokens`` [n] the token at each position.

    The result has n entries: the tokens' own logprobs, the ``top`` best (best first, the lower id first among equals) and those of
    ``token_ids`` in their order.
    """
    scores = finite_logprobs(logits)
    own = scores.gather(1, tokens.to(scores.device, torch.int64).unsqueeze(1)).squeeze(1)
    row = RowLogprobs(token_logprobs=list(own.tolist()))
    if top > 0:
        row.top = [best(line, top) for line in scores]
    if token_ids:
        columns = torch.tensor(token_ids, dtype=torch.int64, device=scores.device)
        wanted = scores.index_select(1, columns).tolist()
        row.wanted = [list(zip(token_ids, values, strict=True)) for values in wanted]
    return row


def finite_logprobs(logits: torch.Tensor) -> torch.Tensor:
    """log softmax over the vocabulary in fp32, without infinities."""
    return (
        logits.float().log_softmax(-1).nan_to_num(nan=LOWEST_LOGPROB, neginf=LOWEST_LOGPROB).clamp_min(LOWEST_LOGPROB)
    )


def best(scores: torch.Tensor, count: int) -> list[tuple[int, float]]:
    """The ``count`` best of one row [V] as (id, logprob), lower ids first among equals."""
    count = min(count, scores.shape[0])
    least = scores.topk(count).values[-1]
    # Everything at or above the last place, not topk's own choice among equals, which is unspecified.
    ids = (scores >= least).nonzero().squeeze(1)
    values = scores[ids]
    order = torch.sort(values, descending=True, stable=True).indices[:count]
    return list(zip(ids[order].tolist(), values[order].tolist(), strict=True))
