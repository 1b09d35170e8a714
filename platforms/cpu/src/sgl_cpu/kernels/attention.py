"""The attention backend ``sgl_ops``: q/k norm, rotation and the KV write in one pass over the projection, then attention over pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from sgl_ops import attention, fused
from sgl_torch.attention.base import AttentionContext

from .session import NAME, Kernels

if TYPE_CHECKING:
    from sgl_torch.forward_batch import ForwardBatch
    from sgl_torch.layers.attention import Attention

Ints = NDArray[np.int32]

_STORED = {
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float8_e4m3fn: "float8_e4m3fn",
    torch.int8: "int8",
}


@dataclass(slots=True, kw_only=True)
class Plan:
    """The arrays of a step, int32: ``table`` [requests, stride], lengths [requests]."""

    table: Ints
    query: Ints
    context: Ints
    tokens: int
    requests: int


@dataclass(slots=True)
class _Layer:
    """Arguments of the calls that do not change from step to step."""

    rope: dict[str, Any]
    attend: dict[str, Any]
    keep: tuple[Any, ...]
    """Scales that the arguments point at."""


class KernelAttention:
    """See :class:`sgl_torch.attention.base.AttentionBackend`. A row's result does not depend on the batch, on how its prompt
    is cut, or on the number of threads."""

    name = NAME
    fuses_qkv = True
    exact = True

    def __init__(self, context: AttentionContext) -> None:
        self._kernels = Kernels.of(context)
        self._pool = pool = context.pool
        self._page_size = context.page_size
        self.kv_format = _STORED.get(pool.dtype, "")
        if not self.kv_format:
            raise ValueError(
                f"the attention kernels do not read a KV cache of {pool.dtype}; use {', '.join(_STORED.values())}"
            )
        self._layers: dict[int, _Layer] = {}
        if pool.dtype == torch.int8:
            pool.add_scales()

    def plan(self, batch: ForwardBatch) -> Plan:
        """Called once a step that is not replayed."""
        if not batch.decode:
            self._kernels.pilot.all_threads()
        return Plan(
            table=np.ascontiguousarray(batch.page_table, dtype=np.int32),
            query=batch.query_lens.astype(np.int32),
            context=batch.context_lens.astype(np.int32),
            tokens=len(batch.write_slots),
            requests=len(batch.query_lens),
        )

    def forward_qkv(self, qkv: torch.Tensor, layer: Attention, batch: ForwardBatch) -> torch.Tensor:
        """Norms and rotates ``qkv`` in place."""
        at, plan = self._layer(layer), batch.attention_plan
        q, stride = qkv.data_ptr(), qkv.stride(0)
        k = q + 4 * layer.num_heads * layer.head_dim
        v = k + 4 * layer.num_kv_heads * layer.head_dim
        fused.rope_kv(
            q,
            k,
            v,
            tokens=plan.tokens,
            ldq=stride,
            ldk=stride,
            ldv=stride,
            positions=batch.positions.data_ptr(),
            slots=batch.write_slots.data_ptr(),
            **at.rope,
        )
        return self._attend(q, stride, at, plan, layer)

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer: Attention, batch: ForwardBatch
    ) -> torch.Tensor:
        at, plan = self._layer(layer), batch.attention_plan
        q, k, v = (_heads_side_by_side(x) for x in (q, k, v))
        plain = {key: value for key, value in at.rope.items() if key not in _ROTATION}
        fused.rope_kv(
            None,
            k.data_ptr(),
            v.data_ptr(),
            tokens=plan.tokens,
            ldk=k.stride(0),
            ldv=v.stride(0),
            slots=batch.write_slots.data_ptr(),
            **plain,
        )
        return self._attend(q.data_ptr(), q.stride(0), at, plan, layer)

    def _attend(self, q: int, stride: int, at: _Layer, plan: Plan, layer: Attention) -> torch.Tensor:
        out = self._kernels.arena.empty(plan.tokens, layer.num_heads * layer.head_dim)
        attention.paged_attention(
            q,
            out.data_ptr(),
            page_table=plan.table,
            query_lens=plan.query,
            context_lens=plan.context,
            tokens=plan.tokens,
            requests=plan.requests,
            pages_stride=plan.table.shape[1],
            ldq=stride,
            bf16_from=self._kernels.attention_tiles_from(plan.requests),
            **at.attend,
        )
        return out

    def _layer(self, layer: Attention) -> _Layer:
        found = self._layers.get(layer.layer_id)
        # Scales are loaded with the weights and may be loaded again.
        if found is None or found.keep[0] != (layer.k_scale, layer.v_scale):
            found = self._layers[layer.layer_id] = self._describe(layer)
        return found

    def _describe(self, layer: Attention) -> _Layer:
        pool, index = self._pool, layer.layer_id
        shape: dict[str, Any] = {
            "heads": layer.num_heads,
            "kv_heads": layer.num_kv_heads,
            "head_dim": layer.head_dim,
        }
        cache: dict[str, Any] = {
            "k_cache": pool.k[index].data_ptr(),
            "v_cache": pool.v[index].data_ptr(),
            "kv_dtype": self.kv_format,
        }
        scales: tuple[Any, ...] = ()
        if self.kv_format == "int8":
            scales = (pool.k_scales[index], pool.v_scales[index])
        elif self.kv_format == "float8_e4m3fn":
            scales = tuple(np.array([scale], np.float32) for scale in (layer.k_scale, layer.v_scale))
        if scales:
            cache |= {"k_scale": scales[0], "v_scale": scales[1]}
        rope = {**shape, **cache, "wide_positions": True, "wide_slots": True}
        if layer.rotary is not None:
            table = layer.rotary.table
            rope |= {
                "cos_sin": table.data_ptr(),
                "max_position": table.shape[0],
                "rot_dim": table.shape[1],
                "interleaved": layer.rotary.interleaved,
            }
        for name, norm in zip(("q_norm", "k_norm"), layer.norms, strict=True):
            if norm is not None:
                rope |= {name: norm.weight.data_ptr(), "eps": norm.eps}
        attend = {
            **shape,
            **cache,
            "page_size": self._page_size,
            "scale": layer.scale,
            "window": layer.window or 0,
            "softcap": layer.soft_cap or 0.0,
            "sinks": None if layer.sinks is None else layer.sinks.data_ptr(),
        }
        return _Layer(rope, attend, ((layer.k_scale, layer.v_scale), scales))


_ROTATION = ("cos_sin", "max_position", "rot_dim", "interleaved", "q_norm", "k_norm", "eps", "wide_positions")


def _heads_side_by_side(x: torch.Tensor) -> torch.Tensor:
    """``x`` [T, heads, dim] with each token's heads in a row; a token's stride may be anything."""
    if x.stride(2) == 1 and x.stride(1) == x.shape[2]:
        return x
    return x.contiguous()


make = KernelAttention
