"""Drafts made by a model: EAGLE and its relatives, DFLASH and DSPARK blocks, Gemma's frozen keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, suggest

from .asking import fill, in_order, phase_backends
from .machine import is_rocm
from .speculative import requests_limit

_OWN_DRAFT = frozenset(
    {
        "BailingMoeForCausalLM",
        "BailingMoeV2ForCausalLM",
        "BailingMoeV2_5ForCausalLM",
        "DeepseekV32ForCausalLM",
        "DeepseekV3ForCausalLM",
        "DeepseekV4ForCausalLM",
        "Glm4MoeForCausalLM",
        "Glm4MoeLiteForCausalLM",
        "GlmMoeDsaForCausalLM",
        "HYV3ForCausalLM",
        "MistralLarge3ForCausalLM",
        "PixtralForConditionalGeneration",
    }
)
"""Architectures whose checkpoints carry their draft layers."""

_TREES_PAY = frozenset({"Grok1ForCausalLM", "Grok1VForCausalLM", "LlamaForCausalLM"})
_TREE, _CHAIN = (5, 4, 8), (3, 1, 4)
"""(steps, drafts a step, verified tokens): trees for small dense drafts, chains for built-in draft layers."""

_TREES_ON_PAGES = ("flashinfer", "fa3", "triton")
_MIXED_CHUNK = ("EAGLE", "EAGLE3", "DFLASH", "DSPARK")
_DFLASH_BACKENDS = ("flashinfer", "fa3", "fa4", "triton", "trtllm_mha", "ascend")
_DSPARK_KEYS = ("dspark_block_size", "dspark_markov_rank", "dspark_noise_token_id", "dspark_target_layer_ids")
_DSPARK_GAMMA = 7
_DFLASH_BLOCK = 16


@rule(
    stage="speculative",
    reads=(
        "speculative_algorithm",
        "speculative_num_steps",
        "speculative_eagle_topk",
        "speculative_num_draft_tokens",
        "attention_backend",
        "decode_attention_backend",
        "device",
        "disable_overlap_schedule",
        "enable_deterministic_inference",
        "enable_dp_attention",
        "enable_mixed_chunk",
        "max_running_requests",
        "model_path",
        "page_size",
        "prefill_attention_backend",
        "revision",
        "speculative_accept_threshold_acc",
        "speculative_accept_threshold_single",
        "speculative_adaptive",
        "speculative_draft_model_path",
        "speculative_use_rejection_sampling",
    ),
    writes=(
        "max_running_requests",
        "disable_overlap_schedule",
        "enable_mixed_chunk",
        "speculative_draft_model_path",
        "speculative_draft_model_revision",
        "speculative_num_steps",
        "speculative_eagle_topk",
        "speculative_num_draft_tokens",
    ),
    after=("ngram_drafts",),
)
def eagle_drafts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """EAGLE, EAGLE3 and stand-alone drafts: where the draft lies, its shape, what verifies it."""
    spec = view.speculative_algorithm
    if spec not in ("EAGLE", "EAGLE3", "STANDALONE"):
        return
    yield require(
        spec != "STANDALONE" or not view.enable_dp_attention,
        "a stand-alone draft is not split by request",
        fields=("speculative_algorithm", "enable_dp_attention"),
    )
    yield from requests_limit(view)
    if view.device == "cpu" and not view.disable_overlap_schedule:
        yield force("disable_overlap_schedule", True, "the draft runs on the CPU that schedules")
    if view.enable_mixed_chunk and spec not in _MIXED_CHUNK:
        yield force("enable_mixed_chunk", False, "this draft is verified apart from prefills")
    if model.architecture in _OWN_DRAFT and view.speculative_draft_model_path is None:
        yield suggest("speculative_draft_model_path", view.model_path, "the checkpoint carries its draft layers")
        if view.revision is not None:
            yield suggest("speculative_draft_model_revision", view.revision, "the draft is part of the model")
    steps, topk, tokens = view.speculative_num_steps, view.speculative_eagle_topk, view.speculative_num_draft_tokens
    if not view.speculative_adaptive and steps is None:
        yield require(
            topk is None and tokens is None,
            "a draft's width and tokens go with its steps",
            fix="set --speculative-num-steps too, or none of the three",
            fields=("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens"),
            kind="AssertionError",
        )
        tree = spec != "STANDALONE" and model.architecture in _TREES_PAY
        steps, topk, tokens = _TREE if tree else _CHAIN
        because = "a tree of drafts pays for this model" if tree else "a chain of drafts suits most models"
        yield suggest("speculative_num_steps", steps, because)
        yield suggest("speculative_eagle_topk", topk, because)
        yield suggest("speculative_num_draft_tokens", tokens, because)
    yield from _eagle_limits(view, spec, topk)
    if topk == 1 and tokens != steps + 1:
        yield fill(view, "speculative_num_draft_tokens", steps + 1, "a chain verifies its steps and one more token")
    yield require(
        (topk or 0) <= 1 or view.page_size <= 1 or view.attention_backend in _TREES_ON_PAGES,
        "trees of drafts share pages, which this kernel does not verify",
        fix=f"use --page-size 1 or one of {', '.join(_TREES_ON_PAGES)}",
        fields=("speculative_eagle_topk", "page_size", "attention_backend"),
    )


def _eagle_limits(view: View, spec: str, topk: int | None) -> Iterator[Declaration]:
    yield require(
        "trtllm_mha" not in phase_backends(view) or (topk or 0) <= 1,
        "trtllm_mha verifies chains of drafts",
        fix="use --speculative-eagle-topk 1",
        fields=("attention_backend", "speculative_eagle_topk"),
    )
    if not view.speculative_use_rejection_sampling:
        return
    yield require(
        spec in ("EAGLE", "EAGLE3"),
        "only EAGLE drafts carry probabilities",
        fields=("speculative_use_rejection_sampling", "speculative_algorithm"),
        kind="NotImplementedError",
    )
    single = view.speculative_accept_threshold_single == 1.0 and view.speculative_accept_threshold_acc == 1.0
    for condition, name in (
        (topk == 1, "speculative_eagle_topk"),
        (single, "speculative_accept_threshold_single"),
        (not view.enable_deterministic_inference, "enable_deterministic_inference"),
    ):
        yield require(
            condition,
            "rejection sampling follows one chain, without thresholds, drawing at random",
            fields=("speculative_use_rejection_sampling", name),
        )


@rule(
    stage="speculative",
    reads=("speculative_algorithm", "max_running_requests", "enable_mixed_chunk"),
    writes=("max_running_requests", "enable_mixed_chunk"),
    after=("eagle_drafts",),
)
def frozen_key_drafts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Gemma's assistants read the model's keys, which a mixed batch would still be writing."""
    if view.speculative_algorithm != "FROZEN_KV_MTP":
        return
    yield from requests_limit(view)
    if view.enable_mixed_chunk:
        yield force("enable_mixed_chunk", False, "a mixed batch would still be writing the keys")


def _block_steps(view: View, name: str) -> Iterator[Declaration]:
    """Block drafts are one step of one draft."""
    for field in ("speculative_num_steps", "speculative_eagle_topk"):
        if getattr(view, field) != 1:
            yield fill(view, field, 1, f"{name} drafts a block in one step")


def draft_block_size(config: Mapping[str, Any]) -> int | None:
    """The block size that a block draft was trained with, where its config.json says so."""
    own = config.get("dflash_config") or {}
    value = own.get("block_size", config.get("block_size"))
    return None if value is None else int(value)


@rule(
    stage="speculative",
    reads=(
        "speculative_algorithm",
        "device",
        "enable_dp_attention",
        "pp_size",
        "speculative_draft_model_path",
        "attention_backend",
        "decode_attention_backend",
        "max_running_requests",
        "prefill_attention_backend",
        "speculative_dflash_block_size",
        "speculative_draft_attention_backend",
        "speculative_draft_window_size",
        "speculative_eagle_topk",
        "speculative_num_draft_tokens",
        "speculative_num_steps",
    ),
    writes=(
        "speculative_num_steps",
        "speculative_eagle_topk",
        "speculative_num_draft_tokens",
        "speculative_draft_attention_backend",
        "max_running_requests",
    ),
    after=("frozen_key_drafts",),
)
def dflash_drafts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """DFLASH drafts a block at once, by a model that says how long its blocks are."""
    if view.speculative_algorithm != "DFLASH":
        return
    device = str(view.device)
    for condition, because, name in (
        (device.startswith("cuda") or device == "npu", "blocks are drafted on GPUs and NPUs", "device"),
        (not view.enable_dp_attention, "blocks are not split by request", "enable_dp_attention"),
        (view.pp_size == 1, "blocks are drafted on one pipeline stage", "pp_size"),
        (view.speculative_draft_model_path is not None, "a draft model is needed", "speculative_draft_model_path"),
    ):
        yield require(condition, f"DFLASH: {because}", fields=("speculative_algorithm", name))
    yield from _block_steps(view, "DFLASH")
    block, tokens = view.speculative_dflash_block_size, view.speculative_num_draft_tokens
    if block is not None:
        yield require(int(block) > 0, "a block has at least one token", fields=("speculative_dflash_block_size",))
        yield require(
            tokens in (None, int(block)),
            "a block is verified whole",
            fields=("speculative_num_draft_tokens", "speculative_dflash_block_size"),
        )
    if tokens is None:
        trained = draft_block_size(model.draft_hf_config)
        tokens = int(block) if block is not None else (trained or _DFLASH_BLOCK)
        yield suggest("speculative_num_draft_tokens", tokens, "a block is verified whole")
    window = view.speculative_draft_window_size
    yield require(
        window is None or window >= tokens,
        "the draft attends to its whole block",
        fields=("speculative_draft_window_size", "speculative_num_draft_tokens"),
    )
    backend = _dflash_backend(view, facts, model)
    if backend != view.speculative_draft_attention_backend:
        yield fill(view, "speculative_draft_attention_backend", backend, "a kernel that attends within a block")
    yield from requests_limit(view)


def _dflash_backend(view: View, facts: Facts, model: ModelInfo) -> str:
    """The draft's attention backend: the model's decode backend where it attends within a block, a portable one else."""
    fallback = "triton" if is_rocm(facts) else "flashinfer"
    backend = view.speculative_draft_attention_backend or phase_backends(view)[1]
    if backend is None or backend not in _DFLASH_BACKENDS:
        return fallback
    if backend != "trtllm_mha":
        return str(backend)
    config = model.draft_hf_config
    text = config.get("text_config") or config
    kinds = text.get("layer_types") or config.get("layer_types") or ()
    windows = len(kinds) == text.get("num_hidden_layers") and set(kinds) == {"sliding_attention"}
    return backend if windows or text.get("is_causal") is True else fallback


@rule(
    stage="speculative",
    reads=(
        "speculative_algorithm",
        "device",
        "enable_dp_attention",
        "dp_size",
        "pp_size",
        "moe_a2a_backend",
        "attn_cp_size",
        "enable_dp_lm_head",
        "max_running_requests",
        "model_path",
        "revision",
        "speculative_draft_model_path",
        "speculative_dspark_block_size",
        "speculative_eagle_topk",
        "speculative_moe_a2a_backend",
        "speculative_num_draft_tokens",
        "speculative_num_steps",
    ),
    writes=(
        "speculative_draft_model_path",
        "speculative_draft_model_revision",
        "speculative_num_steps",
        "speculative_eagle_topk",
        "speculative_num_draft_tokens",
        "max_running_requests",
    ),
    after=("dflash_drafts",),
)
def dspark_drafts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """DSPARK drafts gamma tokens behind an anchor and verifies gamma + 1."""
    if view.speculative_algorithm != "DSPARK":
        return
    yield from _dspark_limits(view, facts)
    config = model.draft_hf_config
    if view.speculative_draft_model_path is None:
        bundled = any(model.hf_config.get(key) is not None for key in _DSPARK_KEYS)
        yield require(
            bundled,
            "the model carries no draft",
            fix="name one with --speculative-draft-model-path",
            fields=("speculative_algorithm", "speculative_draft_model_path"),
        )
        config = model.hf_config
        yield suggest("speculative_draft_model_path", view.model_path, "the checkpoint carries its draft")
        if view.revision is not None:
            yield suggest("speculative_draft_model_revision", view.revision, "the draft is part of the model")
    yield from _block_steps(view, "DSPARK")
    asked, tokens = view.speculative_dspark_block_size, view.speculative_num_draft_tokens
    gamma = asked if asked is not None else config.get("dspark_block_size", draft_block_size(config))
    if gamma is None and tokens is None:
        gamma = _DSPARK_GAMMA
    yield require(gamma is None or int(gamma) > 0, "a block is not empty", fields=("speculative_dspark_block_size",))
    if gamma is not None:
        yield require(
            tokens in (None, int(gamma) + 1),
            f"with blocks of {gamma} tokens {int(gamma) + 1} are verified",
            fields=("speculative_num_draft_tokens", "speculative_dspark_block_size"),
        )
        if tokens is None:
            tokens = int(gamma) + 1
            yield suggest("speculative_num_draft_tokens", tokens, f"blocks of {gamma} tokens and their anchor")
    yield require(int(tokens or 0) >= 2, "a block is not empty", fields=("speculative_num_draft_tokens",))
    yield from requests_limit(view)


def _dspark_limits(view: View, facts: Facts) -> Iterator[Declaration]:
    device, npu = str(view.device), str(view.device).startswith("npu")
    fields = ("speculative_algorithm",)
    yield require(device.startswith(("cuda", "npu")), "DSPARK: drafted on GPUs and NPUs", fields=(*fields, "device"))
    if view.enable_dp_attention and view.dp_size > 1:
        dispatcher, own = view.moe_a2a_backend, view.speculative_moe_a2a_backend
        static = facts.env.get("SGLANG_RAGGED_VERIFY_MODE", "static") == "static"
        for condition, because, name in (
            (view.enable_dp_lm_head, "replicas need heads of their own", "enable_dp_lm_head"),
            (npu or dispatcher in ("none", "megamoe"), "this dispatcher needs equal batches", "moe_a2a_backend"),
            (npu or dispatcher == "none" or static, "this dispatcher needs equal drafts", "moe_a2a_backend"),
            (view.attn_cp_size <= 1, "drafts are not split by context", "attn_cp_size"),
            (npu or own in (None, dispatcher), "drafts use the model's dispatcher", "speculative_moe_a2a_backend"),
        ):
            yield require(bool(condition), f"DSPARK: {because}", fields=(*fields, name))
    yield require(view.pp_size == 1, "DSPARK: drafted on one pipeline stage", fields=(*fields, "pp_size"))


RULES = in_order(eagle_drafts, frozen_key_drafts, dflash_drafts, dspark_drafts)
