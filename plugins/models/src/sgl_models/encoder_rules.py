"""What follows for the server from a model that attends in both directions and generates nothing."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, rule


@rule(
    stage="checks",
    reads=("is_embedding", "chunked_prefill_size", "disable_radix_cache"),
    writes=("is_embedding", "chunked_prefill_size", "disable_radix_cache"),
    after=("embedding_models", "media_in_one_chunk"),
)
def encoders_read_whole(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Encoders answer with vectors and read a prompt whole: no chunks, no cached prefixes."""
    if not view.is_embedding:
        yield force("is_embedding", True, "the model gives vectors, not text")
    for field, value in (("chunked_prefill_size", -1), ("disable_radix_cache", True)):
        if getattr(view, field) != value:
            yield force(field, value, "tokens attend in both directions: a prompt is read once and whole")


RULES = (encoders_read_whole,)
