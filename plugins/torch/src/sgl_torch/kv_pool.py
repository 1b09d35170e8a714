"""The KV pool: one key and one value tensor per layer, addressed by KV slot (page * page_size + offset)."""

from __future__ import annotations

import torch

from .dtypes import FP8_DTYPES


class KVPool:
    """Keys and values [slots, kv_heads, head_dim] for each layer, in the storage dtype.

    The memory is reserved, not touched: an untouched page costs no resident memory. fp8 storage keeps value / scale.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        num_slots: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device,
        v_head_dim: int | None = None,
    ) -> None:
        self.num_slots = num_slots
        self.dtype = dtype
        self.fp8 = dtype in FP8_DTYPES
        v_dim = head_dim if v_head_dim is None else v_head_dim
        self.k = [
            torch.empty((num_slots, num_kv_heads, head_dim), dtype=dtype, device=device) for _ in range(num_layers)
        ]
        self.v = [torch.empty((num_slots, num_kv_heads, v_dim), dtype=dtype, device=device) for _ in range(num_layers)]
        self.k_scales: list[torch.Tensor] = []
        self.v_scales: list[torch.Tensor] = []
        # index operations treat fp8 as the bytes it is
        self._k_raw = [t.view(torch.uint8) if self.fp8 else t for t in self.k]
        self._v_raw = [t.view(torch.uint8) if self.fp8 else t for t in self.v]

    def add_scales(self) -> None:
        """Scales [slots, kv_heads] float32 per layer beside the keys and values, for backends that store int8."""
        for scales, stored in ((self.k_scales, self.k), (self.v_scales, self.v)):
            scales += [torch.empty(t.shape[:2], dtype=torch.float32, device=t.device) for t in stored[len(scales) :]]

    def store(
        self,
        layer: int,
        slots: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        k_scale: float = 1.0,
        v_scale: float = 1.0,
    ) -> None:
        """Write ``k`` and ``v`` [T, kv_heads, head_dim] into ``slots`` [T] int64."""
        self._k_raw[layer].index_copy_(0, slots, self._encode(k, k_scale))
        self._v_raw[layer].index_copy_(0, slots, self._encode(v, v_scale))

    def gather(
        self, layer: int, slots: torch.Tensor, dtype: torch.dtype, k_scale: float = 1.0, v_scale: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of ``slots`` [N] in compute dtype, each [N, kv_heads, head_dim]."""
        k = self._decode(self._k_raw[layer].index_select(0, slots), dtype, k_scale)
        v = self._decode(self._v_raw[layer].index_select(0, slots), dtype, v_scale)
        return k, v

    def copy_pages(self, pairs: torch.Tensor, page_size: int) -> None:
        """Copy whole pages in every layer; ``pairs`` [C, 2] int64 are page ids (from, to)."""
        offsets = torch.arange(page_size, device=pairs.device)
        source = (pairs[:, :1] * page_size + offsets).flatten()
        target = (pairs[:, 1:] * page_size + offsets).flatten()
        for tensor in (*self._k_raw, *self._v_raw, *self.k_scales, *self.v_scales):
            tensor.index_copy_(0, target, tensor.index_select(0, source))

    def _encode(self, x: torch.Tensor, scale: float) -> torch.Tensor:
        if not self.fp8:
            return x.to(self.dtype)
        limit = torch.finfo(self.dtype).max
        return (x.float() / scale).clamp(-limit, limit).to(self.dtype).view(torch.uint8)

    def _decode(self, x: torch.Tensor, dtype: torch.dtype, scale: float) -> torch.Tensor:
        if not self.fp8:
            return x.to(dtype)
        wide = x.view(self.dtype).to(dtype)
        return wide if scale == 1.0 else wide * scale


def bytes_per_token(num_layers: int, num_kv_heads: int, head_dim: int, dtype: torch.dtype, v_head_dim: int = 0) -> int:
    """Bytes that one token's keys and values take over all layers; int8 ones have a float32 scale per head."""
    elements = head_dim + (v_head_dim or head_dim)
    return num_layers * num_kv_heads * (elements * dtype.itemsize + (8 if dtype == torch.int8 else 0))
