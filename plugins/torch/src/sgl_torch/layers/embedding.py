"""Token embedding and the language-model head, tied or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from ..context import LayerContext
from ..ops import WeightPart
from ..weights import WeightSlot


class Embedding(nn.Module):
    """``ids`` [T] to [T, hidden]."""

    def __init__(self, vocab_size: int, hidden_size: int, context: LayerContext) -> None:
        super().__init__()
        self.shape = (vocab_size, hidden_size)
        self._op = context.ops.embedding
        self._dtype = context.dtype
        self._table: Any = None
        self._tied: LMHead | None = None

    def weight_slots(self, prefix: str) -> Iterator[tuple[str, WeightSlot]]:
        yield f"{prefix}.weight", WeightSlot(load=self.load, read=self.dense, shape=self.shape)

    def load(self, part: WeightPart) -> None:
        """Take a table [vocab, hidden]; a tied head takes it too."""
        self._table = self._op.pack(part, self._dtype)
        if self._tied is not None:
            again = not isinstance(part, torch.Tensor) or getattr(self._op, "keeps_parts", False)
            self._tied.load(part if again else self._op.unpack(self._table))

    def dense(self) -> torch.Tensor:
        """The table as a dense tensor."""
        return self._op.unpack(self._table)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self._op(ids, self._table)

    def tie(self, head: LMHead) -> None:
        """Have ``head`` share this table from the next load on."""
        object.__setattr__(self, "_tied", head)


class LMHead(nn.Module):
    """Hidden states [N, hidden] to fp32 logits [N, vocab]. Called only for rows that need logits.

    A tied head takes the embedding's table, and ignores a ``lm_head.weight`` that the checkpoint stores all the same.
    """

    def __init__(
        self, vocab_size: int, hidden_size: int, context: LayerContext, *, tied: Embedding | None = None
    ) -> None:
        super().__init__()
        self.shape = (vocab_size, hidden_size)
        self.tied = tied is not None
        self._op = context.ops.linear
        self._dtype = context.dtype
        self._packed: Any = None
        if tied is not None:
            tied.tie(self)

    def weight_slots(self, prefix: str) -> Iterator[tuple[str, WeightSlot]]:
        yield (
            f"{prefix}.weight",
            WeightSlot(load=self.load, read=self.dense, shape=self.shape, ignored=self.tied),
        )

    def load(self, part: WeightPart) -> None:
        """Take a matrix [vocab, hidden]."""
        self._packed = self._op.pack([part], self._dtype)

    def dense(self) -> torch.Tensor:
        """The matrix as a dense tensor."""
        return self._op.unpack(self._packed)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self._op(hidden, self._packed, None).float()
