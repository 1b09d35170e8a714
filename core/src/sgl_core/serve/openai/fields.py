"""What the OpenAI generation APIs share: field types, sampling fields, fields we know and cannot serve, and usage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from sgl_core.serve.core.answer import Usage
from sgl_core.serve.core.errors import RequestError, refuse
from sgl_core.serve.core.request import ModelCard, TextRequest
from sgl_core.serve.unserved_fields import DEPLOYMENT, MEDIA, RETURNED


class ApiModel(BaseModel):
    """Strict types; null is allowed where a field is optional; fields nobody knows are ignored, as clients send many."""

    model_config = ConfigDict(strict=True, extra="allow")

    def extras(self) -> Mapping[str, Any]:
        """Fields that the model does not declare."""
        return self.__pydantic_extra__ or {}


class StreamOptions(ApiModel):
    """``stream_options``; usage in every chunk is another server's extension."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class GenerationFields(ApiModel):
    """Fields of chat and completions alike. Numbers and stops are checked by the request core, hence the open types."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    user: str | None = None
    seed: Any = None
    stop: Any = None
    logit_bias: Any = None
    temperature: Any = None
    top_p: Any = None
    frequency_penalty: Any = None
    presence_penalty: Any = None
    max_tokens: Any = None
    response_format: dict[str, Any] | None = None
    # Extensions of the reference system and of other servers.
    top_k: Any = None
    min_p: Any = None
    repetition_penalty: Any = None
    min_tokens: Any = None
    max_new_tokens: Any = None
    stop_token_ids: Any = None
    stop_regex: Any = None
    ignore_eos: bool | None = None
    no_stop_trim: bool | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool | None = None
    custom_params: dict[str, Any] | None = None
    custom_logit_processor: str | None = None
    regex: str | None = None
    ebnf: str | None = None
    json_schema: Any = None
    structural_tag: Any = None
    rid: str | None = None
    priority: int | None = None
    cache_salt: str | None = None
    extra_key: str | None = None
    stream_interval: int | None = None
    return_token_ids: bool | None = None

    def sampling(self) -> dict[str, Any]:
        """Sampling values under internal names."""
        trim = self.no_stop_trim if self.no_stop_trim is not None else self.include_stop_str_in_output
        return {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "min_p": self.min_p,
            "frequency_penalty": self.frequency_penalty,
            "presence_penalty": self.presence_penalty,
            "repetition_penalty": self.repetition_penalty,
            "logit_bias": self.logit_bias,
            "seed": self.seed,
            "stop": self.stop,
            "stop_regex": self.stop_regex,
            "stop_token_ids": self.stop_token_ids,
            "max_new_tokens": getattr(self, self.limit_name),
            "min_new_tokens": self.min_tokens,
            "ignore_eos": self.ignore_eos,
            "no_stop_trim": trim,
            "skip_special_tokens": self.skip_special_tokens,
            "spaces_between_special_tokens": self.spaces_between_special_tokens,
            "custom_params": self.custom_params,
        }

    @property
    def limit_name(self) -> str:
        """The field that limits the answer: ``max_tokens``, or where only that is given the native ``max_new_tokens``."""
        return "max_tokens" if self.max_tokens is not None or self.max_new_tokens is None else "max_new_tokens"

    @property
    def salt(self) -> str:
        """What parts this request's cached prefixes from those of others."""
        return self.cache_salt or self.extra_key or ""

    def choices(self) -> int:
        """``n``, checked."""
        n = 1 if self.n is None else self.n
        if not 1 <= n <= 128:
            raise refuse("n", f"must be at least 1 and at most 128, not {n}")
        return n

    def interval(self) -> int | None:
        """``stream_interval``, checked."""
        if self.stream_interval is not None and not 1 <= self.stream_interval <= 4096:
            raise refuse("stream_interval", f"must be at least 1 and at most 4096, not {self.stream_interval}")
        return self.stream_interval

    def usage_wanted(self, default: bool) -> tuple[bool, bool]:
        """(a last chunk with usage, usage in every chunk). Raises RequestError for stream_options without stream."""
        options = self.stream_options
        if options is not None and not self.stream:
            raise refuse("stream_options", "can only be given with stream: true")
        if options is None:
            return default, False
        last = default if options.include_usage is None else options.include_usage
        return last, bool(options.continuous_usage_stats)


NAMES = {"max_new_tokens": "max_tokens", "min_new_tokens": "min_tokens"}
"""Internal sampling names to the clients'."""

_SHARED_UNSERVED = {
    "suffix": "text is only written after a prompt",
    "lora_path": "no LoRA adapters are loaded",
    "session_params": "sessions are not served on this route",
    "prompt_logprobs": "use echo with logprobs on /v1/completions, or logprob_start_len on /generate",
    "use_beam_search": "only sampling is served",
    "guided_json": "use response_format or json_schema",
    "guided_regex": "use regex",
    "guided_grammar": "use ebnf",
    "guided_choice": "use regex, for example (yes|no)",
    "structured_outputs": "use response_format, regex or ebnf",
    "truncate_prompt_tokens": "shorten the prompt",
    "prompt_embeds": "send text or token ids",
    "input_embeds": "send text or token ids",
    "session_id": "sessions are opened by /open_session and used on /generate",
    **DEPLOYMENT,
    **MEDIA,
    **RETURNED,
}
_CHAT_UNSERVED = {
    "functions": "use tools",
    "function_call": "use tool_choice",
    "audio": "this model writes text only",
    "web_search_options": "the server searches nothing",
    "chat_template": "the operator sets the template (--chat-template)",
    "echo": "use /v1/completions",
    "best_of": "use n",
    "input_ids": "use /v1/completions or /generate",
    "return_meta_info": "use /generate",
    "task": "the template decides; use chat_template_kwargs",
}
UNSERVED = {"completions": _SHARED_UNSERVED, "chat": {**_SHARED_UNSERVED, **_CHAT_UNSERVED}}


def check_adapter(model: str | None, card: ModelCard) -> None:
    """Raises RequestError (404) for ``NAME:ADAPTER``: the model is this one, the adapter is not loaded."""
    adapter = (model or "").removeprefix(f"{card.name}:")
    if model and adapter != model:
        raise RequestError(
            f"model: no LoRA adapter {adapter!r} is loaded for {card.name!r}",
            param="model",
            status=404,
            code="model_not_found",
        )


def usage_object(usage: Usage) -> dict[str, Any]:
    """OpenAI's ``usage``."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def total_choices(requests: list[TextRequest]) -> None:
    """Raises RequestError where one call asks for more choices than a server should hold at once."""
    count = sum(request.n for request in requests)
    if count > 4096:
        raise refuse("prompt", f"{count} choices in one call; at most 4096 are served")
