"""Whether the kernels serve a plan, decided once in the worker before anything is loaded, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sgl_ops
from sgl_torch.dtypes import compute_dtype
from sgl_torch.loading import fast_dtypes
from sgl_torch.settings import RuntimeSettings

from .session import NAME, why_not

if TYPE_CHECKING:
    from sgl_core.plan import Plan

_HEAD_MULTIPLE = 16
_FALLBACK = "torch_native"
STORED = "bfloat16"
"""The KV cache's dtype where none is named. Against float32 it halves what a long context reads and moves the mean KL divergence of
SmolLM2's next-token distributions by less than quantized activations do (platforms/cpu/README.md has the figures)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """``settings`` for the torch runtime, the sampler's name, and why the kernels do not attend ("" where they do)."""

    settings: RuntimeSettings
    sampler: str
    why_not: str = ""


def choose(plan: Plan, settings: RuntimeSettings, device: Any) -> Choice:
    """Keep the kernels' backend and sampler where they can serve; the torch ones take over from choices that nobody asked for.

    Raises ValueError where the backend was asked for and cannot serve.
    """
    sampler = _name(plan, "samplers", "pytorch")
    if sampler == "pytorch" and not _asked(plan, "samplers") and sgl_ops.available():
        sampler = NAME  # the same greedy tokens, and draws without sorting the vocabulary
    if settings.attention_backend != NAME:
        return Choice(settings=settings, sampler=sampler)
    why = why_not(compute_dtype(settings.dtype, plan.model.dtype, fast_dtypes(settings)), device)
    if not why and plan.model.head_dim % _HEAD_MULTIPLE:
        why = f"heads of {plan.model.head_dim} elements are no multiple of {_HEAD_MULTIPLE}"
    if not why:
        if settings.kv_cache_dtype == "auto" and not plan.config.get("cpu_exact_activations"):
            settings = replace(settings, kv_cache_dtype=STORED)
        return Choice(settings=settings, sampler=sampler)
    if _asked(plan, "attention") or settings.kv_cache_dtype == "int8":
        raise ValueError(f"the attention backend {NAME} cannot serve: {why}")
    return Choice(settings=replace(settings, attention_backend=_FALLBACK), sampler=sampler, why_not=why)


def _name(plan: Plan, slot: str, default: str) -> str:
    chosen = plan.selection.get(slot)
    return chosen["name"] if chosen else default


def _asked(plan: Plan, slot: str) -> bool:
    chosen = plan.selection.get(slot)
    return chosen is not None and chosen["because"] == "asked for"
