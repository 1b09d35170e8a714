"""The contract of attention backends (registry ``attention``): a factory ``make(context: AttentionContext) -> AttentionBackend``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch

from ..kv_pool import KVPool

if TYPE_CHECKING:
    from ..forward_batch import ForwardBatch
    from ..layers.attention import Attention


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionContext:
    """What a backend is made with, once per worker. ``options`` holds the ``--plugin-option`` values of this backend."""

    pool: KVPool
    page_size: int
    dtype: torch.dtype
    device: torch.device
    context_length: int
    threads: int = 1
    features: frozenset[str] = frozenset()
    options: Mapping[str, Any] = field(default_factory=dict)
    shared: dict[str, Any] = field(default_factory=dict)
    """``OpContext.shared`` of the same model."""


class AttentionBackend(Protocol):
    """Stores a step's keys and values in the pool and attends over each row's pages.

    A backend that does norm, rotation, store and attention in one kernel sets ``fuses_qkv``: the layer then calls
    ``forward_qkv`` with the raw projection and the backend takes norms and rotation from the layer. The result of a
    row must not depend on the batch's other rows (exactly, in fp32).
    """

    fuses_qkv: bool

    def plan(self, batch: ForwardBatch) -> Any:
        """Make the step's metadata, once for all layers; kept in ``batch.attention_plan``."""
        ...

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer: Attention, batch: ForwardBatch
    ) -> torch.Tensor:
        """``q`` [T, heads, head_dim], ``k`` and ``v`` [T, kv_heads, head_dim] (views, any strides) to [T, heads * head_dim]."""
        ...

    def forward_qkv(self, qkv: torch.Tensor, layer: Attention, batch: ForwardBatch) -> torch.Tensor:
        """``qkv`` [T, (heads + 2 kv_heads) * head_dim], which may be overwritten, to [T, heads * head_dim]."""
        ...
