"""What a model's task decides at last: prefix language models, embedding models."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, rule, suggest

from .asking import fill, in_order
from .graph_plan import BREAKABLE, DISABLED, locked, plan_of, prefill_sizes, with_phase, without_graphs
from .machine import is_cuda, is_sm90, is_sm100

_EMBEDS = frozenset(
    {
        "BertModel",
        "CLIPModel",
        "Contriever",
        "LlamaEmbeddingModel",
        "MistralModel",
        "XLMRobertaModel",
    }
)
"""Architectures that only embed."""


def is_embedding_gemma(model: ModelInfo) -> bool:
    """Gemma 3 attending in both directions: an embedding model."""
    text = model.text_config
    return text.get("model_type") == "gemma3_text" and bool(text.get("use_bidirectional_attention"))


@rule(
    stage="checks",
    reads=("attention_backend", "cuda_graph_config"),
    writes=(
        "attention_backend",
        "chunked_prefill_size",
        "disable_radix_cache",
        "disable_cuda_graph",
        "cuda_graph_config",
    ),
)
def prefix_lm_whole(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Prefix language models attend to the whole prompt in both directions: never in pieces."""
    hrm = model.model_type == "hrm_text" or model.architecture == "HrmTextForCausalLM"
    if not hrm or not model.hf_config.get("prefix_lm", True):
        return
    because = "the prompt is attended to in both directions"
    if view.attention_backend != "triton":
        yield force("attention_backend", "triton", because)
    yield force("chunked_prefill_size", -1, because)
    yield force("disable_radix_cache", True, because)
    yield force("disable_cuda_graph", True, because)
    yield fill(view, "cuda_graph_config", without_graphs(plan_of(view, facts)), because)


@rule(
    stage="checks",
    reads=(
        "is_embedding",
        "attention_backend",
        "prefill_attention_backend",
        "cuda_graph_config",
        "chunked_prefill_size",
        "cuda_graph_tc_compiler",
        "disable_cuda_graph",
        "disable_decode_cuda_graph",
        "disable_prefill_cuda_graph",
        "disable_radix_cache",
        "enable_tokenizer_batch_encode",
    ),
    writes=(
        "is_embedding",
        "disable_radix_cache",
        "chunked_prefill_size",
        "enable_tokenizer_batch_encode",
        "prefill_only_disable_kv_cache",
        "cuda_graph_config",
    ),
    after=("prefix_lm_whole",),
    before=("media_in_one_chunk",),
)
def embedding_models(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Embedding models embed; those attending in both directions need neither chunks nor a cache."""
    both = is_embedding_gemma(model)
    if (both or model.architecture in _EMBEDS) and not view.is_embedding:
        yield force("is_embedding", True, "the model embeds")
    if not both:
        return
    because = "tokens attend in both directions: a prompt is read once and whole"
    for field, value in (
        ("disable_radix_cache", True),
        ("chunked_prefill_size", -1),
        ("enable_tokenizer_batch_encode", True),
    ):
        if getattr(view, field) != value:
            yield force(field, value, because)
    prefill = view.prefill_attention_backend or view.attention_backend
    if (is_sm90(facts) or is_sm100(facts)) and prefill in (None, "fa3", "fa4"):
        yield suggest("prefill_only_disable_kv_cache", True, because)
    yield fill(view, "cuda_graph_config", _embedding_plan(view, facts, model), because)


def _embedding_plan(view: View, facts: Facts, model: ModelInfo) -> dict[str, dict[str, object]]:
    """Prefill captured for the longest prompt, no decode."""
    plan = with_phase(plan_of(view, facts), "decode", backend=DISABLED)
    prefill, fixed = plan["prefill"], locked(view)
    if not is_cuda(facts):
        return with_phase(plan, "prefill", backend=DISABLED)
    if prefill["backend"] == DISABLED:
        return plan
    plan = with_phase(plan, "prefill", backend=BREAKABLE)
    if ("prefill", "max_bs") not in fixed:
        longest = max(prefill["max_bs"] or 0, model.context_length, 16384)
        plan = with_phase(plan, "prefill", max_bs=longest)
        if ("prefill", "bs") not in fixed:
            plan = with_phase(plan, "prefill", bs=prefill_sizes(longest))
    return plan


RULES = in_order(prefix_lm_whole, embedding_models)
