"""How much of the budget a model takes before it was ever loaded, and the size of its KV pool that goes with it."""

from __future__ import annotations

from dataclasses import replace

from sgl_core.serve.prepare import Prepared

WEIGHTS = 1.05
"""Memory of weights to the size of their files: alignment, and small tensors that are converted."""
UNKNOWN = 1.25
"""Memory of a model to its weight files, where the size of its KV cache cannot be told from its configuration."""
LEAST_TOKENS = 4096
"""Tokens of the KV pool below which a model is not held, where the budget allows as much."""
REQUESTS = 128
"""Whole contexts beyond which a KV pool is of no use, where the operator sets no number of requests."""

_WIDE = {"float32": 4, "fp32": 4}
_NARROW = ("fp8", "int8", "mxfp8")
_TINY = ("nvfp4", "fp4")


def allowance(prepared: Prepared, budget: int, models: int) -> int:
    """Bytes of a model for which the operator reserved none: an even share of the budget, or what it needs to serve a few
    thousand tokens where that is more; never more than all."""
    files = prepared.files.weight_bytes
    each = kv_bytes_per_token(prepared)
    if not each:
        return min(max(budget // models, int(files * UNKNOWN)), max(budget, files))
    tokens = prepared.plan.config.get("max_total_tokens")
    if tokens is None:
        tokens = min(prepared.plan.model.context_length or LEAST_TOKENS, LEAST_TOKENS)
        least = int(files * WEIGHTS) + tokens * each
        return min(max(budget // models, least), max(budget, int(files * WEIGHTS)))
    return int(files * WEIGHTS) + int(tokens) * each


def limited(prepared: Prepared, memory: int) -> Prepared:
    """The model with a KV pool that fits into ``memory`` bytes beside its weights, where the operator set no size of it."""
    plan, config = prepared.plan, prepared.plan.config
    each = kv_bytes_per_token(prepared)
    if config.get("max_total_tokens") is not None or prepared.args.explicit("mem_fraction_static") or not each:
        return prepared
    room = (memory - int(prepared.files.weight_bytes * WEIGHTS)) // each
    useful = plan.model.context_length * (config.get("max_running_requests") or REQUESTS)
    tokens = max(min(room, useful) if useful else room, config.get("page_size") or 1)
    return replace(prepared, plan=replace(plan, config=config.replaced(max_total_tokens=tokens)))


def kv_bytes_per_token(prepared: Prepared) -> int:
    """Keys and values of all layers; 0 where the configuration does not say (other kinds of attention, no model)."""
    model, kind = prepared.plan.model, str(prepared.plan.config.get("kv_cache_dtype") or "auto")
    if model.attention_kind not in ("mha", "gqa") or prepared.files.weight_bytes == 0:
        return 0
    numbers = model.num_kv_heads * (model.head_dim + (model.v_head_dim or model.head_dim)) * model.num_layers
    if kind == "auto":
        return numbers * _WIDE.get(model.dtype, 2)
    if kind.startswith(_TINY):
        return numbers // 2
    return numbers * (1 if kind.startswith(_NARROW) else _WIDE.get(kind, 2))
