"""MiniCPM with sparse or lightning attention."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, suggest

from ..asking import backends_unset, in_order
from ..machine import is_blackwell, switch

MINICPM = ("MiniCPMForCausalLM", "MiniCPMSALAForCausalLM")
_FIELDS = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
_SPARSE = ("minicpm_flashattn", "minicpm_flashinfer")


@rule(
    stage="model",
    architectures=MINICPM,
    reads=(*_FIELDS, "enable_dp_attention", "enable_hierarchical_cache", "disaggregation_mode", "disable_radix_cache"),
    writes=(*_FIELDS, "disable_radix_cache"),
    before=("state_cache",),
)
def minicpm_attention(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Sparse layers have kernels of their own and keep no prefixes."""
    config = model.hf_config
    sparse = bool(config.get("has_minicpm_sparse_attention"))
    yield require(not view.enable_dp_attention, "MiniCPM does not split requests", fields=("enable_dp_attention",))
    if sparse or config.get("has_lightning_layers"):
        yield require(
            not view.enable_hierarchical_cache,
            "there are no prefixes to offload",
            fields=("enable_hierarchical_cache",),
        )
        if not view.disable_radix_cache:
            yield force("disable_radix_cache", True, "selected blocks differ from request to request")
    blackwell = is_blackwell(facts)
    if switch(facts, "SGLANG_MINICPM_FORCE_DENSE"):
        dense = {"minicpm_flashattn": "fa4" if blackwell else "fa3", "minicpm_flashinfer": "flashinfer"}
        for field in _FIELDS:
            if getattr(view, field) in dense:
                yield force(field, dense[getattr(view, field)], "SGLANG_MINICPM_FORCE_DENSE asks for full attention")
    elif sparse:
        unset = backends_unset(view)
        used = unset or any(getattr(view, field) in _SPARSE for field in _FIELDS)
        yield require(
            not used or view.disaggregation_mode == "null",
            "selected blocks are not transferred",
            fields=("disaggregation_mode",),
        )
        if unset:
            backend = "minicpm_flashinfer" if blackwell else "minicpm_flashattn"
            yield suggest("attention_backend", backend, "the model selects blocks of keys")


RULES = in_order(minicpm_attention)
