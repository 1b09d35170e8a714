"""Tokens from logits: argmax, seeded sampling, log-sum-exp for logprobs, grammar bit masks."""

from __future__ import annotations

from .library import check, load
from .pointers import Data, address


def argmax(logits: Data, out: Data, *, rows: int, vocab: int, ld: int | None = None) -> None:
    """out int32 [rows]: index of the first maximum of each f32 row; NaN never wins."""
    check(load().sgl_argmax(address(logits), ld or vocab, rows, vocab, address(out)))


def sample(
    logits: Data,
    out: Data,
    *,
    rows: int,
    vocab: int,
    temperature: Data | None = None,
    top_k: Data | None = None,
    top_p: Data | None = None,
    min_p: Data | None = None,
    seeds: Data | None = None,
    positions: Data | None = None,
    ld: int | None = None,
) -> None:
    """Draw out int32 [rows]. Per-row arrays: temperature, top_p, min_p f32; top_k int32 (<= 0: off); seeds, positions int64.

    All filters look at the whole distribution: a token stays if fewer than top_k are more probable, the mass before it is at most
    top_p, and it has at least min_p of the best token's probability. Ties go to the lower index. temperature <= 0 is argmax.
    The draw depends on (seed, position) and the row's logits only.
    """
    check(
        load().sgl_sample(
            address(logits),
            ld or vocab,
            rows,
            vocab,
            address(temperature),
            address(top_k),
            address(top_p),
            address(min_p),
            address(seeds),
            address(positions),
            address(out),
        )
    )


def logsumexp(
    logits: Data, out: Data, *, rows: int, vocab: int, inverse_temperature: float = 1.0, ld: int | None = None
) -> None:
    """out f32 [rows] = log sum exp(logits * inverse_temperature): a token's logprob is logit * inverse_temperature - out."""
    check(load().sgl_logsumexp(address(logits), ld or vocab, rows, vocab, inverse_temperature, address(out)))


def mask_logits(
    logits: Data, masks: Data, *, count: int, vocab: int, words: int, rows: Data | None = None, ld: int | None = None
) -> None:
    """-inf where a bit of masks int32 [count, words] is 0 (32 tokens a word, lowest bit first); mask i is for row rows[i] (int32), or row i."""
    check(load().sgl_mask_logits(address(logits), ld or vocab, vocab, address(masks), words, address(rows), count))
