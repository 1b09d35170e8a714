"""Context parallelism for prefill and decode: one spelling for the old and new flags, and what divides what."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, set_env, suggest

from .asking import in_order, is_dsa
from .machine import is_cuda, switch

_STRATEGY_OF_MODE = {"in-seq-split": "zigzag", "round-robin-split": "interleave"}
_MODE_OF_STRATEGY = {strategy: mode for mode, strategy in _STRATEGY_OF_MODE.items()}
_SECOND_GENERATION = frozenset(
    {
        "DeepseekV32ForCausalLM",
        "DeepseekV3ForCausalLM",
        "GlmMoeDsaForCausalLM",
        "GptOssForCausalLM",
        "MiMoV2FlashForCausalLM",
        "MiMoV2ForCausalLM",
        "Qwen3MoeForCausalLM",
    }
)
"""Families whose layers split the sequence outside the attention backend."""

_LEGACY = ("enable_prefill_context_parallel", "enable_dsa_prefill_context_parallel")
_WRITES = ("enable_prefill_cp", "cp_strategy", *_LEGACY, "dsa_prefill_cp_mode", "prefill_cp_mode")
_READS = (*_LEGACY, "prefill_cp_mode", "dsa_prefill_cp_mode", "attention_backend")


def _one_spelling(view: View) -> Iterator[Declaration]:
    """Old flags switch the new ones on; the new ones are mirrored back for kernels that read the old names."""
    plain, sparse = view.enable_prefill_context_parallel, view.enable_dsa_prefill_context_parallel
    enabled, strategy = view.enable_prefill_cp, view.cp_strategy
    if plain or sparse:
        enabled = True
        yield force("enable_prefill_cp", True, "an older flag for prefill context parallelism is set")
        if strategy is None:
            mode = view.prefill_cp_mode if plain else view.dsa_prefill_cp_mode
            strategy = _STRATEGY_OF_MODE[mode]
            yield suggest("cp_strategy", strategy, f"{mode} is called {strategy} now")
    if (plain and sparse) or not enabled or strategy is None:
        return
    mirrored = "kernels read the older names too"
    if sparse or view.attention_backend in ("dsa", "dsv4"):
        yield force("enable_dsa_prefill_context_parallel", True, mirrored)
        yield force("enable_prefill_context_parallel", False, mirrored)
    else:
        yield force("enable_prefill_context_parallel", True, mirrored)
    yield force("dsa_prefill_cp_mode", _MODE_OF_STRATEGY[strategy], mirrored)
    yield force("prefill_cp_mode", _MODE_OF_STRATEGY[strategy], mirrored)


@rule(
    stage="sources",
    reads=(*_READS, "cp_strategy", "enable_prefill_cp"),
    writes=_WRITES,
    after=("prefill_decode_roles",),
)
def prefill_cp_flags(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Old and new flags of prefill context parallelism agree before anything reads them."""
    yield from _one_spelling(view)


@rule(stage="sources", reads=("dcp_size", "dcp_comm_backend", "dcp_replicate_q_proj"), after=("prefill_only_request",))
def decode_cp_request(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Settings of decode context parallelism need more than one rank."""
    size, comm = view.dcp_size, view.dcp_comm_backend
    exchange = comm in ("a2a", "fi_a2a")
    yield require(size >= 1, "a context-parallel group has at least one rank", fields=("dcp_size",))
    yield require(
        not exchange or size > 1,
        "this exchange reduces attention over several ranks",
        fix="set --dcp-size above 1",
        fields=("dcp_comm_backend", "dcp_size"),
    )
    yield require(
        comm != "fi_a2a" or is_cuda(facts),
        "this exchange is a FlashInfer kernel over the NVLink fabric",
        fix="use a2a or ag_rs",
        fields=("dcp_comm_backend",),
    )
    if view.dcp_replicate_q_proj:
        yield require(size > 1, "there is one rank only", fields=("dcp_replicate_q_proj", "dcp_size"))
        yield require(
            exchange,
            "replicating the query projection saves a gather that only the a2a exchanges do without",
            fields=("dcp_replicate_q_proj", "dcp_comm_backend"),
        )


@rule(
    stage="parallel",
    reads=(*_READS, "cp_strategy", "enable_prefill_cp"),
    writes=_WRITES,
    after=("data_parallel_checks",),
)
def prefill_cp_flags_again(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Once the model's attention backend is known, the flags are mirrored to the names that backend reads."""
    yield from _one_spelling(view)


@rule(
    stage="parallel",
    reads=(
        "enable_prefill_cp",
        "cp_strategy",
        "attn_cp_size",
        "moe_dp_size",
        "ep_size",
        "tp_size",
        "dp_size",
        "enable_aiter_allreduce_fusion",
        "enable_dsa_prefill_context_parallel",
        "enable_multimodal",
        "enable_prefill_context_parallel",
        "language_only",
        "pp_size",
    ),
    after=("prefill_cp_flags_again",),
)
def context_parallel_sizes(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Context, data and expert groups must divide the tensor-parallel group."""
    enabled, strategy = view.enable_prefill_cp, view.cp_strategy
    second = switch(facts, "SGLANG_ENABLE_CP_V2")
    if model.architecture in _SECOND_GENERATION and "SGLANG_ENABLE_CP_V2" not in facts.env:
        second = not is_dsa(model) or bool(enabled and strategy == "interleave")
        if second:
            yield set_env("SGLANG_ENABLE_CP_V2", "True", "the family's layers split the sequence themselves")
    if enabled and second and model.architecture.startswith("MiMoV2"):
        yield require(strategy == "zigzag", "MiMo V2 splits in zigzag only", fields=("cp_strategy",))
        yield require(
            not (model.is_multimodal and view.enable_multimodal and not view.language_only),
            "MiMo V2 splits text only",
            fix="add --language-only",
            fields=("enable_prefill_cp", "language_only"),
        )
    yield require(
        not enabled or strategy is not None,
        "prefill context parallelism needs a strategy",
        fix="add --cp-strategy zigzag or interleave",
        fields=("enable_prefill_cp", "cp_strategy"),
    )
    yield require(
        not all(getattr(view, name) for name in _LEGACY),
        "the two older flags of prefill context parallelism exclude each other",
        fields=_LEGACY,
    )
    yield from _group_sizes(view)


def _group_sizes(view: View) -> Iterator[Declaration]:
    context, tensor, experts, replicas = view.attn_cp_size, view.tp_size, view.ep_size, view.moe_dp_size
    if context > 1:
        yield _divides(tensor % context == 0, "attn_cp_size must divide tp_size", "attn_cp_size", "tp_size")
        yield _divides(
            tensor % (view.dp_size * context) == 0,
            "dp_size * attn_cp_size must divide tp_size",
            "attn_cp_size",
            "dp_size",
            "tp_size",
        )
        yield _divides(
            not view.enable_aiter_allreduce_fusion,
            "the fused AITER all-reduce does not know context groups",
            "enable_aiter_allreduce_fusion",
            "attn_cp_size",
        )
    if replicas > 1:
        yield _divides(tensor % replicas == 0, "moe_dp_size must divide tp_size", "moe_dp_size", "tp_size")
        yield _divides(
            experts * replicas <= tensor, "ep_size * moe_dp_size exceeds tp_size", "ep_size", "moe_dp_size", "tp_size"
        )
        yield _divides(view.pp_size == 1, "no pipeline with replicated experts", "pp_size", "moe_dp_size")
        yield _divides(
            experts == 1 or experts * replicas == tensor,
            "ep_size * moe_dp_size must equal tp_size",
            "ep_size",
            "moe_dp_size",
            "tp_size",
        )
        yield _divides(
            not view.enable_aiter_allreduce_fusion,
            "the fused AITER all-reduce does not know expert replicas",
            "enable_aiter_allreduce_fusion",
            "moe_dp_size",
        )
    yield _divides(
        context == replicas or replicas == 1,
        "context groups and expert replicas have one size, or experts are not replicated",
        "attn_cp_size",
        "moe_dp_size",
    )


def _divides(condition: bool, because: str, *fields: str) -> Declaration:
    return require(condition, because, fields=fields, kind="AssertionError")


_DECODE_AS_TENSOR_PARALLEL = frozenset({"DeepseekV4ForCausalLM", "GlmMoeDsaForCausalLM"})
"""Families whose attention weights are whole on every context rank, so that decoding can share them out."""


@rule(
    stage="model",
    reads=("enable_dsa_cache_layer_split", "enable_cp_decode_attn_tp"),
    before=("state_cache",),
)
def context_features(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Features of context parallelism that few families have."""
    yield require(
        not view.enable_dsa_cache_layer_split or is_dsa(model),
        "only caches of sparse attention are split by layer",
        fields=("enable_dsa_cache_layer_split",),
    )
    yield require(
        not view.enable_cp_decode_attn_tp or model.architecture in _DECODE_AS_TENSOR_PARALLEL,
        f"{model.architecture} does not hold whole attention weights on every context rank",
        fields=("enable_cp_decode_attn_tp",),
    )


RULES = in_order(
    prefill_cp_flags,
    decode_cp_request,
    context_features,
    prefill_cp_flags_again,
    context_parallel_sizes,
)
