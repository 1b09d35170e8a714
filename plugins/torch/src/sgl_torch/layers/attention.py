"""The attention layer: heads, scale, window, soft-cap and sinks of one layer; the work is the attention backend's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import nn

from ..context import LayerContext
from ..ops import WeightPart
from ..ops.reference import dense
from ..weights import WeightError, WeightSlot

if TYPE_CHECKING:
    from ..forward_batch import ForwardBatch
    from .norm import RMSNorm
    from .rotary import RotaryEmbedding


class Attention(nn.Module):
    """Splits qkv, norms and rotates queries and keys, stores keys and values, attends over pages.

    ``window`` counts the keys a query sees, itself included; None means all. ``soft_cap`` c turns scores s into c tanh(s / c).
    ``q_norm`` and ``k_norm`` act on single heads. ``k_scale`` and ``v_scale`` are the checkpoint's scales of an fp8 cache
    (1.0 where it has none): stored value times scale = value.
    """

    def __init__(
        self,
        layer_id: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        context: LayerContext,
        *,
        rotary: RotaryEmbedding | None = None,
        q_norm: RMSNorm | None = None,
        k_norm: RMSNorm | None = None,
        scale: float | None = None,
        window: int | None = None,
        soft_cap: float | None = None,
        sinks: bool = False,
    ) -> None:
        super().__init__()
        if num_heads % num_kv_heads:
            raise ValueError(f"{num_heads} query heads cannot share {num_kv_heads} key heads evenly")
        self.layer_id = layer_id
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = head_dim
        self.scale = head_dim**-0.5 if scale is None else scale
        self.window = window
        self.soft_cap = soft_cap
        self.rotary = rotary
        self.k_scale = 1.0
        self.v_scale = 1.0
        self.scales_loaded = False
        self._norms = (q_norm, k_norm)
        self.sinks = torch.zeros(num_heads, dtype=torch.float32, device=context.device) if sinks else None

    @property
    def norms(self) -> tuple[RMSNorm | None, RMSNorm | None]:
        """(q_norm, k_norm)."""
        return self._norms

    @property
    def q_norm(self) -> RMSNorm | None:
        return self._norms[0]

    @property
    def k_norm(self) -> RMSNorm | None:
        return self._norms[1]

    def weight_slots(self, prefix: str) -> Iterator[tuple[str, WeightSlot]]:
        """Sinks, and cache scales under each of the spellings that checkpoints use; ``prefix`` ends in ``.attn``."""
        parent = prefix.rpartition(".")[0]
        for letter in ("k", "v"):
            for name in (
                f"{letter}_scale",
                f"attn.{letter}_scale",
                f"{letter}_proj.{letter}_scale",
                f"{letter}_proj.output_scale",
            ):
                yield f"{parent}.{name}", self._scale_slot(letter)
        if self.sinks is not None:
            yield (
                f"{parent}.sinks",
                WeightSlot(load=self._load_sinks, read=lambda: self._sinks(), shape=(self.num_heads,)),
            )

    def _scale_slot(self, letter: str) -> WeightSlot:
        def load(tensor: WeightPart) -> None:
            values = dense(tensor, torch.float32, torch.device("cpu"))
            if values.numel() != 1:
                raise WeightError(
                    f"layer {self.layer_id}: {letter}_scale has {values.numel()} values; one per layer is served"
                )
            setattr(self, f"{letter}_scale", float(values))
            self.scales_loaded = True

        return WeightSlot(
            load=load, read=lambda: torch.tensor(getattr(self, f"{letter}_scale")), shape=None, optional=True
        )

    def _sinks(self) -> torch.Tensor:
        assert self.sinks is not None
        return self.sinks

    def _load_sinks(self, tensor: WeightPart) -> None:
        self._sinks().copy_(dense(tensor, torch.float32, self._sinks().device))

    def forward(self, qkv: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        """``qkv`` [T, (heads + 2 kv_heads) * head_dim] to [T, heads * head_dim]."""
        backend = batch.attention
        if backend.fuses_qkv:
            return backend.forward_qkv(qkv, self, batch)
        heads = qkv.view(-1, self.num_heads + 2 * self.num_kv_heads, self.head_dim)
        q, k, v = self.prepare(heads, batch.positions)
        return backend.forward(q, k, v, self, batch).view(-1, self.num_heads * self.head_dim)

    def prepare(self, heads: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Split ``heads`` [T, heads + 2 kv_heads, head_dim] into normed, rotated q and k, and v."""
        n, m = self.num_heads, self.num_heads + self.num_kv_heads
        v = heads[:, m:]
        q_norm, k_norm = self._norms
        if q_norm is None and k_norm is None:
            qk = heads[:, :m]
            if self.rotary is not None:
                qk = self.rotary(qk, positions)
            return qk[:, :n], qk[:, n:], v
        q = q_norm(heads[:, :n]) if q_norm is not None else heads[:, :n]
        k = k_norm(heads[:, n:m]) if k_norm is not None else heads[:, n:m]
        if self.rotary is not None:
            q, k = self.rotary(q, positions), self.rotary(k, positions)
        return q, k, v
