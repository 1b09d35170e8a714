"""Bodies of Ollama's routes, and its options under the names of the chat route."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sgl_core.serve.core.errors import refuse, unsupported
from sgl_core.serve.core.validate import check_integer, check_number, shown
from sgl_core.serve.openai.fields import ApiModel


class Base(ApiModel):
    """``keep_alive`` is taken and not acted on: the served model stays loaded."""

    model: str | None = None
    stream: bool | None = None
    options: dict[str, Any] | None = None
    keep_alive: str | float | None = None


class Answering(Base):
    """What chat and generate share."""

    format: str | dict[str, Any] | None = None
    think: bool | str | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None


class ChatBody(Answering):
    """/api/chat."""

    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None


class GenerateBody(Answering):
    """/api/generate."""

    prompt: str | None = None
    system: str | None = None
    raw: bool | None = None
    suffix: str | None = None
    template: str | None = None
    context: list[int] | None = None
    images: list[Any] | None = None


class EmbedBody(Base):
    """/api/embed; ``prompt`` is what the older /api/embeddings calls it. Long texts are cut unless ``truncate`` is false."""

    input: Any = None
    prompt: str | None = None
    truncate: bool | None = None
    dimensions: int | None = None


class ShowBody(ApiModel):
    """/api/show."""

    model: str | None = None
    name: str | None = None
    verbose: bool | None = None


OPTIONS = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repeat_penalty": "repetition_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "seed": "seed",
    "stop": "stop",
}
"""Ollama's sampling options to the chat route's fields; num_predict is read apart."""

NAMES = {chat: f"options.{own}" for own, chat in OPTIONS.items()} | {
    "max_tokens": "options.num_predict",
    "max_completion_tokens": "options.num_predict",
    "response_format": "format",
    "reasoning_effort": "think",
}
"""Chat fields to this API's."""

NEUTRAL: Mapping[str, tuple[float, ...]] = {
    "typical_p": (1.0, 0.0),
    "tfs_z": (1.0, 0.0),
    "mirostat": (0.0,),
    "xtc_probability": (0.0,),
}
"""Sampling options that are not served, with the values that ask for nothing."""

IGNORED = frozenset(
    {
        "repeat_last_n",
        "num_keep",
        "num_ctx",
        "num_batch",
        "num_gpu",
        "main_gpu",
        "num_thread",
        "numa",
        "low_vram",
        "f16_kv",
        "logits_all",
        "vocab_only",
        "use_mmap",
        "use_mlock",
        "embedding_only",
        "penalize_newline",
        "mirostat_tau",
        "mirostat_eta",
        "draft_num_predict",
    }
)
"""How Ollama loads a model: here the operator decides at start. The repetition penalty counts the whole context."""


def sampling(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options as chat fields. Raises RequestError for those that are not served, and for words that are no option."""
    out: dict[str, Any] = {}
    for name, value in (options or {}).items():
        if value is None:
            continue
        if name in OPTIONS:
            out[OPTIONS[name]] = value
        elif name == "num_predict":
            most = check_integer(value, "options.num_predict", -2)
            if most == 0:
                raise refuse("options.num_predict", "must be above 0, or -1 for no limit")
            if most > 0:
                out["max_tokens"] = most
        elif name == "num_ctx":
            check_integer(value, "options.num_ctx", 1)
        elif name in NEUTRAL:
            if check_number(value, f"options.{name}") not in NEUTRAL[name]:
                raise unsupported(f"options.{name}", "the sampler has no such step")
        elif name not in IGNORED:
            raise refuse(f"options.{name}", "there is no such option")
    if out.get("seed") == -1:
        del out["seed"]
    return out


def response_format(value: str | dict[str, Any] | None) -> dict[str, Any] | None:
    """``format`` (empty, json, or a schema) as the chat route reads it. Raises RequestError."""
    if value is None or value == "":
        return None
    if value == "json":
        return {"type": "json_object"}
    if isinstance(value, str):
        raise refuse("format", f"must be json or a JSON schema, not {shown(value)}")
    return {"type": "json_schema", "json_schema": {"name": "format", "schema": value}}
