"""The body of /v1/responses, and what it asks for that this server cannot give."""

from __future__ import annotations

from typing import Any

from sgl_core.serve.core.errors import refuse, refuse_unserved, unsupported
from sgl_core.serve.core.validate import shown
from sgl_core.serve.openai.fields import ApiModel


class StreamOptions(ApiModel):
    """``include_obfuscation`` pads events against traffic analysis; none are padded."""

    include_obfuscation: bool | None = None


class Reasoning(ApiModel):
    """``summary`` is taken and not acted on: the thinking itself is given, not a summary of it."""

    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


class TextSettings(ApiModel):
    """``format``: text, json_object or json_schema."""

    format: dict[str, Any] | None = None
    verbosity: str | None = None


class ResponseRequest(ApiModel):
    """OpenAI's fields and the sampling extensions of the chat route."""

    input: Any = None
    model: str | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    background: bool | None = None
    max_output_tokens: Any = None
    temperature: Any = None
    top_p: Any = None
    top_logprobs: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    text: TextSettings | None = None
    reasoning: Reasoning | None = None
    include: list[str] | None = None
    metadata: dict[str, Any] | None = None
    truncation: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    service_tier: str | None = None
    max_tool_calls: int | None = None
    # Extensions.
    top_k: Any = None
    min_p: Any = None
    repetition_penalty: Any = None
    frequency_penalty: Any = None
    presence_penalty: Any = None
    seed: Any = None
    stop: Any = None
    stop_regex: Any = None
    stop_token_ids: Any = None
    min_tokens: Any = None
    logit_bias: Any = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    custom_params: dict[str, Any] | None = None
    custom_logit_processor: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    priority: int | None = None
    cache_salt: str | None = None
    extra_key: str | None = None
    stream_interval: int | None = None


SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "seed",
    "stop",
    "stop_regex",
    "stop_token_ids",
    "min_tokens",
    "logit_bias",
    "ignore_eos",
    "skip_special_tokens",
    "custom_params",
    "custom_logit_processor",
    "chat_template_kwargs",
    "priority",
    "cache_salt",
    "extra_key",
    "stream_interval",
)
"""Fields that the chat route reads under the same name."""

NAMES = {
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "messages": "input",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
}
"""Chat fields to this API's."""

UNSERVED = {
    "conversation": "conversations are not stored; use previous_response_id",
    "prompt": "the server stores no prompt templates",
    "context_management": "the server compacts no contexts",
    "modalities": "this model writes text only",
    "image": "this model writes text only",
    "moderation": "the server moderates nothing",
    "background_options": "a background response has no options",
    "use_beam_search": "only sampling is served",
    "session_id": "use previous_response_id",
    "request_id": "the server names responses",
}


def check_fields(body: ResponseRequest) -> None:
    """Raises RequestError for the first field that cannot be served."""
    refuse_unserved(body.extras(), UNSERVED)
    if body.truncation not in (None, "disabled", "auto"):
        raise refuse("truncation", f"must be disabled or auto, not {body.truncation!r}")
    if body.truncation == "auto":
        raise unsupported("truncation", "the server drops nothing of a conversation; use disabled")
    if body.stream_options is not None and not body.stream:
        raise refuse("stream_options", "can only be given with stream: true")
    if body.background and body.store is False:
        raise refuse("background", "needs store: the answer is fetched later")
    if body.metadata is not None:
        _check_metadata(body.metadata)
    if body.service_tier not in (None, "auto", "default", "flex", "priority"):
        raise refuse("service_tier", f"must be auto, default, flex or priority, not {shown(body.service_tier)}")


def _check_metadata(metadata: dict[str, Any]) -> None:
    if len(metadata) > 16:
        raise refuse("metadata", f"has {len(metadata)} entries; at most 16 are kept")
    for key, value in metadata.items():
        if not isinstance(value, str) or len(key) > 64 or len(value) > 512:
            raise refuse("metadata", "must map texts of at most 64 characters to texts of at most 512")
