"""Log-probabilities in OpenAI's two shapes: a list of objects for chat, parallel lists for completions.

A token that cannot be reached has no finite log-probability; it is written as -9999.0, as OpenAI does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sgl_core.serve.core.detokenize import DetokenizerFactory
from sgl_core.serve.core.events import TokenLogprob

UNREACHABLE = -9999.0


def finite(value: float) -> float:
    """A log-probability that JSON can hold."""
    return value if math.isfinite(value) else UNREACHABLE


def chat_logprobs(entries: Sequence[TokenLogprob], top: int, tokens: DetokenizerFactory) -> dict[str, Any]:
    """``{"content": [{token, bytes, logprob, top_logprobs}], "refusal": null}``."""
    return {"content": [_chat_entry(entry, top, tokens) for entry in entries], "refusal": None}


def _chat_entry(entry: TokenLogprob, top: int, tokens: DetokenizerFactory) -> dict[str, Any]:
    out = _chat_token(entry.token_id, entry.logprob, tokens)
    out["top_logprobs"] = [_chat_token(token, value, tokens) for token, value in entry.top[:top]]
    return out


def _chat_token(token: int, value: float | None, tokens: DetokenizerFactory) -> dict[str, Any]:
    raw = tokens.raw(token)
    logprob = UNREACHABLE if value is None else finite(value)
    return {"token": raw.decode("utf-8", "replace"), "bytes": list(raw), "logprob": logprob}


def completion_logprobs(
    entries: Sequence[TokenLogprob], top: int, tokens: DetokenizerFactory, shift: int = 0
) -> dict[str, Any]:
    """``{tokens, token_logprobs, top_logprobs, text_offset}`` of one length; ``shift`` is added to the offsets.

    ``top_logprobs`` holds the chosen token beside the best ``top``; it is null where the logprob is (the first prompt token).
    """
    return {
        "tokens": [_text(entry.token_id, tokens) for entry in entries],
        "token_logprobs": [None if entry.logprob is None else finite(entry.logprob) for entry in entries],
        "top_logprobs": [_top(entry, top, tokens) for entry in entries],
        "text_offset": [entry.offset + shift for entry in entries],
    }


def _top(entry: TokenLogprob, top: int, tokens: DetokenizerFactory) -> dict[str, float] | None:
    if entry.logprob is None:
        return None
    out: dict[str, float] = {}
    for token, value in [*entry.top[:top], (entry.token_id, entry.logprob)]:
        out.setdefault(_text(token, tokens), finite(value))  # two ids may read alike; the likelier one stays
    return out


def _text(token: int, tokens: DetokenizerFactory) -> str:
    return tokens.raw(token).decode("utf-8", "replace")
