"""``meta_info`` of the native API: how an answer ended, token counts, and log-probabilities as [logprob, id, text] rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sgl_core.serve.core.answer import Answer
from sgl_core.serve.core.detokenize import DetokenizerFactory
from sgl_core.serve.core.events import Finished
from sgl_core.serve.core.request import TextRequest
from sgl_core.serve.core.service import Service


def meta_info(answer: Answer, request: TextRequest, service: Service, seconds: float, texts: bool) -> dict[str, Any]:
    """What the reference system reports beside the text. ``finish_reason`` is null while the answer goes on."""
    end = answer.finished
    out: dict[str, Any] = {
        "id": request.rid,
        "finish_reason": None if end is None else finish_reason(end),
        "prompt_tokens": len(request.input_ids),
        "completion_tokens": len(answer.token_ids),
        "cached_tokens": answer.cached_tokens,
        "weight_version": service.card.weight_version,
    }
    if end is not None:
        out["e2e_latency"] = seconds
    if request.logprobs.output:
        out.update(_logprobs(answer, request, service.detokenizers, texts))
    return out


def finish_reason(end: Finished) -> dict[str, Any]:
    """``{"type": ...}`` with what the kind of end says of itself."""
    if end.reason == "length":
        return {"type": "length", "length": end.completion_tokens}
    if end.reason == "stop":
        return {"type": "stop", "matched": end.matched}
    return {"type": "abort", "message": "the request was aborted", "status_code": None, "err_type": None}


def _logprobs(answer: Answer, request: TextRequest, tokens: DetokenizerFactory, texts: bool) -> dict[str, Any]:
    prompt, options = answer.prompt_logprobs or [], request.logprobs
    names = tokens if texts else None
    out: dict[str, Any] = {
        "input_token_logprobs": [_row(entry.token_id, entry.logprob, names) for entry in prompt],
        "output_token_logprobs": [_row(entry.token_id, entry.logprob, names) for entry in answer.logprobs],
        "output_token_logprobs_length": len(answer.logprobs),
    }
    if options.top:
        out["input_top_logprobs"] = [_rows(entry.top[: options.top], names) for entry in prompt]
        out["output_top_logprobs"] = [_rows(entry.top[: options.top], names) for entry in answer.logprobs]
    if options.token_ids:
        out["input_token_ids_logprobs"] = [_rows(entry.wanted, names) for entry in prompt]
        out["output_token_ids_logprobs"] = [_rows(entry.wanted, names) for entry in answer.logprobs]
    return out


def _rows(pairs: Sequence[tuple[int, float]], tokens: DetokenizerFactory | None) -> list[list[Any]] | None:
    return [_row(token, value, tokens) for token, value in pairs] or None


def _row(token: int, value: float | None, tokens: DetokenizerFactory | None) -> list[Any]:
    """A log-probability that is not finite (a token that cannot be reached) is null."""
    logprob = value if value is not None and math.isfinite(value) else None
    return [logprob, token, None if tokens is None else tokens.raw(token).decode("utf-8", "replace")]
