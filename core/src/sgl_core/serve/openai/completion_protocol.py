"""The body of /v1/completions."""

from __future__ import annotations

from typing import Any

from .fields import GenerationFields


class CompletionRequest(GenerationFields):
    """OpenAI's fields and extensions; ``prompt`` in its four forms is checked by the request core. ``text`` is the native name of it."""

    prompt: Any = None
    text: Any = None
    best_of: int | None = None
    echo: bool | None = None
    logprobs: int | None = None
    add_special_tokens: bool | None = None
