"""Drawing tokens: temperature, top-k, top-p and min-p over a batch of rows, then one draw per row.

All three limits look at the whole distribution (as in the reference system): in the order of falling probability, the lower id
first among equals, a token stays if fewer than top_k stand before it, the mass before it is at most top_p, and it has at least
min_p times the best token's probability. So the kept tokens are a prefix of that order and the limits only decide its length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

_NEAR = 1024
"""Top-p looks at this many best tokens before it sorts a whole vocabulary."""


@dataclass(frozen=True, slots=True)
class Limits:
    """One entry a row: temperature above 0, top_k (0: none), top_p (1: none), min_p (0: none)."""

    temperature: NDArray[np.float32]
    top_k: NDArray[np.int64]
    top_p: NDArray[np.float32]
    min_p: NDArray[np.float32]


def probabilities(logits: torch.Tensor, limits: Limits) -> torch.Tensor:
    """Unnormalised probabilities [n, V] fp32 of ``logits`` [n, V] under the limits; zero for what is cut away.

    A row without any finite logit is all zero. Each row depends on its own logits and limits only.
    """
    device = logits.device
    temperature = torch.from_numpy(limits.temperature).to(device).unsqueeze(1)
    highest = logits.amax(-1, keepdim=True)
    # The best token has probability exp(0): no overflow at any temperature.
    probs = ((logits - highest) / temperature).exp_().nan_to_num_(nan=0.0)
    near = np.flatnonzero(limits.min_p > 0)
    if len(near):
        floor = torch.from_numpy(limits.min_p[near]).to(device).unsqueeze(1)
        rows = torch.from_numpy(near).to(device)
        chosen = probs[rows]
        probs[rows] = chosen.masked_fill_(chosen < floor, 0.0)
    cut = np.flatnonzero(((limits.top_k > 0) & (limits.top_k < logits.shape[1])) | (limits.top_p < 1))
    if len(cut):
        # Limits count in the whole distribution, so the mass is taken before min_p's cut.
        rows = torch.from_numpy(cut).to(device)
        whole = (
            ((logits[rows] - highest[rows]) / temperature[rows]).exp_().nan_to_num_(nan=0.0)
            if len(near)
            else probs[rows]
        )
        keep = _prefix(whole, limits.top_k[cut], limits.top_p[cut])
        probs[rows] = probs[rows] * keep
    return probs


def _prefix(probs: torch.Tensor, top_k: NDArray[np.int64], top_p: NDArray[np.float32]) -> torch.Tensor:
    """Which tokens [n, V] top-k and top-p keep."""
    vocab, device = probs.shape[1], probs.device
    unlimited = np.where((top_k <= 0) | (top_k > vocab), vocab, top_k)
    places = vocab if bool((top_p < 1).any()) else int(unlimited.max())
    first = min(places, max(_NEAR, int(np.where(unlimited < vocab, unlimited, 0).max())), vocab)
    counts = torch.from_numpy(unlimited).to(device).unsqueeze(1)
    mass = torch.from_numpy(top_p).to(device, torch.float64).unsqueeze(1) * probs.sum(
        -1, keepdim=True, dtype=torch.float64
    )
    best = _largest(probs, first)
    keep = _prefix_of(probs, best, counts, mass)
    # Rows whose cut lies beyond the best few are done again on the whole order.
    if first < vocab:
        open_end = (best.sum(-1, dtype=torch.float64) <= mass.squeeze(1)) & (counts.squeeze(1) > first)
        again = open_end.nonzero().squeeze(1)
        if len(again):
            ordered = _largest(probs[again], vocab)
            keep[again] = _prefix_of(probs[again], ordered, counts[again], mass[again])
    return keep


def _prefix_of(probs: torch.Tensor, ordered: torch.Tensor, counts: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
    """Which tokens belong to the longest prefix of ``ordered`` (values, falling) that both limits allow."""
    before = ordered.cumsum(-1, dtype=torch.float64) - ordered
    places = torch.arange(ordered.shape[1], device=probs.device)
    allowed = (before <= mass) & (places < counts)
    allowed[:, 0] = True
    length = allowed.sum(-1, keepdim=True)
    keep = probs >= ordered.gather(1, length - 1)
    # Among the equals of the last kept one the lower ids stay, as many as fit; sorting says nothing about their order.
    tied = (keep.sum(-1, keepdim=True) > length).squeeze(1).nonzero().squeeze(1)
    if len(tied):
        least = ordered[tied].gather(1, length[tied] - 1)
        above, equal = probs[tied] > least, probs[tied] == least
        room = length[tied] - above.sum(-1, keepdim=True)
        keep[tied] = above | (equal & (equal.cumsum(-1) <= room))
    return keep


def _largest(probs: torch.Tensor, count: int) -> torch.Tensor:
    """The ``count`` largest values of each row, falling."""
    if probs.device.type != "cpu":
        return probs.topk(count, dim=-1).values
    # numpy's vectorised selection and sort are several times faster than torch's on a CPU.
    values = probs.numpy()
    first = values.shape[1] - count
    chosen = np.partition(values, first, axis=-1)[:, first:] if first > 0 else values
    return torch.from_numpy(-np.sort(-chosen, axis=-1))


def draw(probs: torch.Tensor, uniform: NDArray[np.float64]) -> torch.Tensor:
    """One token id [n] int64 a row by inverse cumulative distribution over ids; ``probs`` need not sum to one.

    A row of zeros gives 0.
    """
    cumulative = probs.cumsum(-1, dtype=torch.float64)
    total = cumulative[:, -1:]
    # Below the total even after rounding, so that the last token with mass is the last that can be drawn.
    point = torch.from_numpy(uniform).to(probs.device).unsqueeze(1) * total
    point = torch.minimum(point, torch.nextafter(total, torch.zeros_like(total)))
    token = torch.searchsorted(cumulative, point, right=True).squeeze(1)
    return torch.where(total.squeeze(1) > 0, token, 0)
