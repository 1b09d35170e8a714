"""From a request's progress to the messages the front gets: tokens since the last message, log-probabilities, the end."""

from __future__ import annotations

from typing import Any

from sgl_core.api.worker import RowLogprobs

from .messages import Logprobs, Output
from .request import Request


def first_fields(request: Request) -> dict[str, Any]:
    """What only a request's first output carries."""
    return {
        "cached_tokens": max(request.reported_cached, 0),
        "queue_seconds": request.queue_seconds,
        "prompt_tokens": request.prompt_len,
        "prompt_logprobs": request.prompt_logprobs,
    }


def make_output(request: Request, unsent: int, first: bool, **end: Any) -> Output:
    """The next output of a request: its last ``unsent`` tokens. ``end`` holds the fields of its end, if it ended."""
    logprobs, request.logprobs = request.logprobs, None
    return Output(
        rid=request.message.rid,
        token_ids=request.output_ids[-unsent:] if unsent else [],
        logprobs=logprobs,
        **(first_fields(request) if first else {}),
        **end,
    )


def add_logprobs(request: Request, row: RowLogprobs) -> None:
    """Append one sampled token's log-probabilities to those waiting to be sent."""
    if request.logprobs is None:
        request.logprobs = Logprobs(token_logprobs=[], top=[], wanted=[])
    held = request.logprobs
    held.token_logprobs.extend(row.token_logprobs)
    held.top.extend(row.top)
    held.wanted.extend(row.wanted)


def begin_prompt_logprobs(request: Request) -> Logprobs | None:
    """Where a prefill gathers the log-probabilities of its prompt; nothing predicts the first token."""
    wanted = request.message.logprobs
    if request.output_ids or not 0 <= wanted.prompt_start < request.prompt_len:
        return None
    first = wanted.prompt_start == 0
    return Logprobs(
        token_logprobs=[None] if first else [],
        top=[[]] if first and wanted.top else [],
        wanted=[[]] if first and wanted.token_ids else [],
    )


def add_prompt_logprobs(request: Request, start: int, row: RowLogprobs) -> None:
    """Append a chunk's prompt log-probabilities; its first entry belongs to the prompt token at position ``start + 1``."""
    wanted_from = request.message.logprobs.prompt_start
    held = request.prompt_logprobs
    if held is None:
        return
    skip = max(0, max(wanted_from, 1) - start - 1)
    keep = request.prompt_len - start - 1
    held.token_logprobs.extend(row.token_logprobs[skip:keep])
    held.top.extend(row.top[skip:keep])
    held.wanted.extend(row.wanted[skip:keep])
