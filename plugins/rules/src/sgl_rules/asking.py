"""Small questions about the configuration as it stands that several rules share, and the ordering of rule lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Force, Rule, Suggest, View, force, suggest


def fill(view: View, field: str, value: Any, because: str) -> Suggest | Force:
    """Decide a field that still holds its placeholder (``auto``, ``none``, unset).

    A user who typed the placeholder itself asked for our decision too, so it is forced there.
    """
    return force(field, value, because) if view.explicit(field) else suggest(field, value, because)


def backends_unset(view: View) -> bool:
    """No attention backend was chosen so far, for either phase."""
    return (
        view.attention_backend is None
        and view.prefill_attention_backend is None
        and view.decode_attention_backend is None
    )


def phase_backends(view: View) -> tuple[str | None, str | None]:
    """The attention backends that prefill and decode end up with."""
    return (
        view.prefill_attention_backend or view.attention_backend,
        view.decode_attention_backend or view.attention_backend,
    )


def any_phase(view: View, backend: str) -> bool:
    """Whether a backend is named for prefill, decode or both."""
    return backend in (view.attention_backend, view.prefill_attention_backend, view.decode_attention_backend)


def main_or_decode(view: View, backend: str) -> bool:
    """Whether a backend is named as the common one or for decode."""
    return backend in (view.attention_backend, view.decode_attention_backend)


def uses_mla(model: ModelInfo) -> bool:
    """Latent attention, sparse or not."""
    return model.attention_kind in ("mla", "dsa")


def is_dsa(model: ModelInfo) -> bool:
    """Latent attention with the sparse indexer."""
    return model.attention_kind == "dsa"


def extra_buffer(view: View) -> bool:
    """The linear-attention state is cached with spare slots, so overlap and paging may stay on."""
    return not view.disable_radix_cache and view.mamba_radix_cache_strategy in ("extra_buffer", "extra_buffer_lazy")


def algorithm(view: View) -> str:
    """The speculative algorithm in capitals, empty without speculation."""
    return (view.speculative_algorithm or "").upper()


def quantization_unset(view: View) -> bool:
    """Nobody decided about quantization: neither named a method nor asked for ``unquant``."""
    return view.quantization is None and view.given("quantization") is None


def in_order(*rules: Rule) -> tuple[Rule, ...]:
    """The rules, each declared to run after the earlier ones of its stage (all of them: some may not apply to a model)."""
    ordered: list[Rule] = []
    for item in rules:
        earlier = tuple(other.name for other in ordered if other.stage == item.stage and other.name not in item.after)
        ordered.append(replace(item, after=(*item.after, *earlier)))
    return tuple(ordered)
