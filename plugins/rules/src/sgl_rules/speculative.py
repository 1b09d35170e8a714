"""Speculative decoding: algorithm names, defaults common to all algorithms, adaptive drafts, n-gram drafts."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, suggest

from .asking import fill, in_order

ALGORITHMS = ("EAGLE", "EAGLE3", "FROZEN_KV_MTP", "STANDALONE", "NGRAM", "DFLASH", "DSPARK", "NONE")
_GEMMA4_DRAFTS = ("Gemma4AssistantForCausalLM", "Gemma4UnifiedAssistantForCausalLM")
_ADAPTIVE_STEPS = (0, 1, 3, 7)
"""Step counts the adaptive controller moves between, over all batch sizes, where no file names others."""

MAX_REQUESTS = 48
"""Requests a speculative server runs at once: beyond it, verifying costs more than drafting saves."""


@rule(
    stage="speculative",
    reads=(
        "speculative_draft_model_path",
        "speculative_moe_runner_backend",
        "moe_runner_backend",
        "speculative_draft_model_revision",
    ),
    writes=("speculative_draft_model_revision", "speculative_moe_runner_backend"),
)
def draft_defaults(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The draft's revision, and the draft's expert runner: the model's."""
    if view.speculative_draft_model_path is not None and view.speculative_draft_model_revision is None:
        yield suggest("speculative_draft_model_revision", "main", "the draft repository's main branch")
    if view.speculative_moe_runner_backend is None:
        yield suggest(
            "speculative_moe_runner_backend", view.moe_runner_backend, "the draft's experts run as the model's"
        )


@rule(
    stage="speculative",
    reads=("speculative_algorithm", "speculative_draft_window_size", "speculative_skip_dp_mlp_sync"),
    writes=("speculative_algorithm",),
    after=("draft_defaults",),
)
def algorithm_name(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """One name per algorithm; Gemma 4's assistants draft from frozen keys."""
    asked = view.speculative_algorithm
    window = view.speculative_draft_window_size
    if asked is not None:
        assistant = any(a in _GEMMA4_DRAFTS for a in model.draft_hf_config.get("architectures") or ())
        name = asked.upper()
        yield require(
            name != "EAGLE3" or not assistant,
            "Gemma 4's assistant is drafted with NEXTN",
            fields=("speculative_algorithm", "speculative_draft_model_path"),
        )
        if name in ("NEXTN", "EAGLE"):
            name = "FROZEN_KV_MTP" if assistant else "EAGLE"
        if name != asked:
            yield force("speculative_algorithm", name, "the name that the rules and workers know")
    yield require(
        window is None or int(window) > 0, "a window has at least one token", fields=("speculative_draft_window_size",)
    )
    known = (*ALGORITHMS, *view.choices("speculative").names())
    yield require(
        asked is None or asked.upper() in (*known, "NEXTN"),
        f"there is no algorithm {asked!r}",
        fix=f"use one of {', '.join(known)}",
        fields=("speculative_algorithm",),
    )
    yield require(
        not view.speculative_skip_dp_mlp_sync or (asked or "").upper() in ("EAGLE", "NEXTN"),
        "only EAGLE drafts do without the synchronisation",
        fields=("speculative_skip_dp_mlp_sync", "speculative_algorithm"),
        kind="AssertionError",
    )


@rule(
    stage="speculative",
    reads=(
        "speculative_adaptive",
        "speculative_algorithm",
        "speculative_eagle_topk",
        "speculative_num_steps",
        "enable_dp_attention",
        "enable_multi_layer_eagle",
        "enable_pdmux",
        "enable_two_batch_overlap",
        "speculative_adaptive_config",
    ),
    writes=(
        "speculative_adaptive",
        "speculative_eagle_topk",
        "speculative_num_steps",
        "speculative_num_draft_tokens",
    ),
    after=("algorithm_name",),
)
def adaptive_steps(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Adaptive drafting follows one chain and starts in the middle of its step counts."""
    if not view.speculative_adaptive:
        return
    supported = (
        view.speculative_algorithm in ("EAGLE", "EAGLE3")
        and view.speculative_eagle_topk in (None, 1)
        and not view.enable_dp_attention
        and not view.enable_multi_layer_eagle
        and not view.enable_two_batch_overlap
        and not view.enable_pdmux
    )
    if not supported:
        yield force("speculative_adaptive", False, "adaptive drafts are for chains of EAGLE on one replica")
        return
    if view.speculative_eagle_topk is None:
        yield suggest("speculative_eagle_topk", 1, "adaptive drafts follow one chain")
    steps = view.speculative_num_steps
    if view.speculative_adaptive_config is not None:
        return  # the controller reads its step counts from the file when it starts
    if steps is None:
        steps = _ADAPTIVE_STEPS[len(_ADAPTIVE_STEPS) // 2]
        yield suggest("speculative_num_steps", steps, "the middle of the step counts")
    yield require(
        steps in _ADAPTIVE_STEPS,
        f"adaptive drafts move between {', '.join(map(str, _ADAPTIVE_STEPS))} steps",
        fields=("speculative_num_steps",),
    )
    yield fill(view, "speculative_num_draft_tokens", steps + 1, "a chain verifies its steps and one more token")


def requests_limit(view: View) -> Iterator[Declaration]:
    """The limit of running requests under speculation."""
    if view.max_running_requests is None:
        yield suggest("max_running_requests", MAX_REQUESTS, "beyond it verifying costs more than drafting saves")


@rule(
    stage="speculative",
    reads=(
        "speculative_algorithm",
        "device",
        "max_running_requests",
        "page_size",
        "attention_backend",
        "disable_overlap_schedule",
        "enable_dp_attention",
        "enable_mixed_chunk",
        "speculative_eagle_topk",
        "speculative_ngram_external_corpus_max_tokens",
        "speculative_ngram_external_corpus_path",
        "speculative_ngram_external_sam_budget",
        "speculative_ngram_max_bfs_breadth",
        "speculative_num_draft_tokens",
        "speculative_num_steps",
    ),
    writes=(
        "disable_overlap_schedule",
        "max_running_requests",
        "enable_mixed_chunk",
        "speculative_eagle_topk",
        "speculative_num_draft_tokens",
        "speculative_num_steps",
    ),
    after=("adaptive_steps",),
)
def ngram_drafts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """N-gram drafts come from what was said before: a tree as wide as the search, twelve tokens deep together."""
    if view.speculative_algorithm != "NGRAM":
        return
    yield require(
        view.device in ("cuda", "cpu"),
        "n-gram drafts are verified on GPUs and CPUs",
        fields=("speculative_algorithm", "device"),
    )
    if view.device == "cpu" and not view.disable_overlap_schedule:
        yield force("disable_overlap_schedule", True, "drafts are found on the CPU that runs the model")
    yield from requests_limit(view)
    if view.enable_mixed_chunk:
        yield force("enable_mixed_chunk", False, "drafts are verified apart from prefills")
    width = view.speculative_ngram_max_bfs_breadth
    if view.speculative_eagle_topk != width:
        yield force("speculative_eagle_topk", width, "the tree is as wide as the search")
    tokens = view.speculative_num_draft_tokens
    if tokens is None:
        tokens = 12
        yield suggest("speculative_num_draft_tokens", tokens, "twelve drafted tokens are verified at once")
    if view.speculative_num_steps is None:
        yield suggest("speculative_num_steps", tokens // width, "the depth of the tree")
    yield from _external_corpus(view, tokens)
    yield require(
        width <= 1 or view.page_size <= 1 or view.attention_backend == "flashinfer",
        "trees of drafts on pages are verified by FlashInfer only",
        fix="use --page-size 1 or --attention-backend flashinfer",
        fields=("speculative_algorithm", "page_size", "attention_backend"),
    )
    yield require(
        not view.enable_dp_attention,
        "replicas would draft different numbers of tokens",
        fields=("speculative_algorithm", "enable_dp_attention"),
    )


def _external_corpus(view: View, tokens: int) -> Iterator[Declaration]:
    if view.speculative_ngram_external_corpus_path is None:
        return
    budget = view.speculative_ngram_external_sam_budget
    for condition, name in (
        (budget > 0, "speculative_ngram_external_sam_budget"),
        (view.speculative_ngram_external_corpus_max_tokens > 0, "speculative_ngram_external_corpus_max_tokens"),
        (budget <= tokens - 1, "speculative_ngram_external_sam_budget"),
    ):
        yield require(condition, "drafts from a corpus need a positive share of the drafted tokens", fields=(name,))


RULES = in_order(draft_defaults, algorithm_name, adaptive_steps, ngram_drafts)
