"""ForwardBatch: one step as the layers see it: device tensors, and host lists of lengths for planning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from sgl_core.api.worker import StepBatch

if TYPE_CHECKING:
    from .attention.base import AttentionBackend


@dataclass(slots=True, kw_only=True)
class ForwardBatch:
    """R rows, T new tokens, rows back to back. Positions and slots are int64 on the device.

    ``query_lens``, ``context_lens`` [R] and ``page_table`` [R, P] stay on the host, where the attention backend plans.
    ``last_index`` [R] is each row's last token in the batch. ``decode`` is true when every row has one token and none
    is known to be of a prompt.
    """

    input_ids: torch.Tensor
    positions: torch.Tensor
    write_slots: torch.Tensor
    query_lens: NDArray[np.int64]
    context_lens: NDArray[np.int64]
    page_table: NDArray[np.int64]
    last_index: NDArray[np.int64]
    page_size: int
    decode: bool
    attention: AttentionBackend
    attention_plan: Any = None
    second_segments: NDArray[np.int64] | None = None
    """[R] the position from which each row's tokens are of the second text of a pair (0: none); for models that pool."""


def make_forward_batch(
    batch: StepBatch,
    *,
    attention: AttentionBackend,
    page_size: int,
    last_tokens: torch.Tensor,
    device: torch.device,
) -> ForwardBatch:
    """Device tensors of a step. Token -1 becomes ``last_tokens[slot]``, what the slot's previous step sampled.

    Raises ValueError for a batch whose arrays do not fit together.
    """
    query = batch.query_lens.astype(np.int64)
    context = batch.context_lens.astype(np.int64)
    ends = np.cumsum(query)
    total = int(ends[-1]) if len(ends) else 0
    if total != len(batch.token_ids) or total != len(batch.write_slots):
        raise ValueError(
            f"step {batch.step_id}: query_lens sum to {total}, but there are {len(batch.token_ids)} tokens "
            f"and {len(batch.write_slots)} write slots"
        )
    decode = total == len(query) and batch.prompts_from in (None, total)
    if decode:
        positions = context
    else:
        positions = np.arange(total, dtype=np.int64) + np.repeat(context - (ends - query), query)
    ids = torch.from_numpy(batch.token_ids.astype(np.int64)).to(device)
    if (batch.token_ids < 0).any():
        rows = np.repeat(batch.slots.astype(np.int64), query)
        ids = torch.where(ids < 0, last_tokens.index_select(0, torch.from_numpy(rows).to(device)), ids)
    return ForwardBatch(
        input_ids=ids,
        positions=torch.from_numpy(positions.copy() if decode else positions).to(device),
        write_slots=torch.from_numpy(batch.write_slots.astype(np.int64)).to(device),
        query_lens=query,
        context_lens=context,
        page_table=batch.page_table.astype(np.int64),
        last_index=ends - 1,
        page_size=page_size,
        decode=decode,
        attention=attention,
    )
