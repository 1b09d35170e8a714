"""What clients see: keys, names, templates, parsers, streaming."""

from __future__ import annotations

from typing import Any

from ..declare import OldFlag, Subject, field, from_registry


class Interface(Subject):
    """API."""

    namespace = "serving"
    title = "API"

    api_key = field(
        str | None,
        None,
        "Key that clients must send as a bearer token on every route but health. Prefer the environment or a file over the command line.",
        secret=True,
    )
    admin_api_key = field(
        str | None,
        None,
        "Separate key for administrative routes (cache, weights, profiling). When set, --api-key does not open them.",
        secret=True,
    )
    served_model_name = field(str | None, None, "Name under which clients see the model. Unset: the model path.")
    weight_version = field(
        str, "default", "A label of the weights that answers and /model_info report; changes with weight updates."
    )
    chat_template = field(
        str | None, None, "Chat template: a file, or the name of an installed one. Unset uses the tokenizer's."
    )
    hf_chat_template_name = field(str | None, None, "Which of a tokenizer's several named chat templates to use.")
    completion_template = field(
        str | None, None, "Template for code completion with prefix and suffix: a file or a name."
    )
    file_storage_path = field(
        str,
        "sglang_storage",
        "Folder for files that clients upload and for batches; made when the first comes. Empty: neither is served.",
    )
    enable_cache_report = field(bool, False, "Report the cached prompt tokens in usage.prompt_tokens_details.")
    return_input_ids = field(bool, False, "Let answers carry the prompt's token ids.")
    return_output_ids = field(bool, False, "Let answers carry the generated token ids.")
    reasoning_parser = field(
        str | None,
        None,
        "How thinking is told from the answer. auto recognises the model's chat template.",
        choices=from_registry("reasoning_parsers", "auto"),
    )
    default_chat_template_kwargs = field(
        dict[str, Any] | None,
        None,
        'Arguments for the chat template of every request, as a JSON object; a request\'s own win. Example: {"enable_thinking": false}.',
        parse="json",
    )
    strip_thinking_cache = field(
        bool, False, "Keep only the prompt of a reasoning answer in the prefix cache, not its thinking and text."
    )
    enable_strict_thinking = field(
        bool, False, "Forbid tokens that must not occur while thinking, such as tool-call markers."
    )
    tool_call_parser = field(
        str | None,
        None,
        "How tool calls are read from the model's output. auto recognises the chat template.",
        choices=from_registry("tool_parsers", "auto"),
    )
    tool_server = field(
        str | None, None, "Where built-in tools run: demo, or addresses of tool servers separated by commas."
    )
    sampling_defaults = field(
        str,
        "model",
        "Where unset sampling values come from: the model's generation_config.json (model) or OpenAI's documented defaults (openai).",
        choices=("openai", "model"),
    )
    asr_max_buffer_seconds = field(
        int, 60, "Most seconds of audio one transcription stream may hold before it is closed."
    )
    asr_max_concurrent_sessions = field(int, 32, "Most transcription sessions at once.")
    preferred_sampling_params = field(
        str | None, None, "Sampling values that /model_info recommends to clients, as a JSON object.", parse="json"
    )
    allow_auto_truncate = field(bool, False, "Cut prompts that are too long instead of refusing them.")


class Constrained(Subject):
    """Constrained decoding."""

    namespace = "serving"
    title = "Constrained decoding"

    constrained_json_whitespace_pattern = field(
        str | None,
        None,
        "Regular expression for the white space allowed in constrained JSON (outlines and llguidance).",
    )
    constrained_json_disable_any_whitespace = field(
        bool, False, "Allow no white space in constrained JSON: shorter answers (xgrammar and llguidance)."
    )


class Streaming(Subject):
    """Streaming."""

    namespace = "serving"
    title = "Streaming"

    stream_interval = field(
        int, 1, "Tokens per streamed message. 1 is smoothest; more saves work with very many streams."
    )
    batch_notify_size = field(int, 16, "Stream notifications handled before the event loop gets its turn.")
    stream_response_default_include_usage = field(
        bool, False, "End every stream with usage, even where stream_options does not ask for it."
    )
    incremental_streaming_output = field(
        bool,
        False,
        "Native /generate streams send only the new text of each step instead of all text so far.",
        old_flags=(OldFlag("--stream-output", use="--incremental-streaming-output", store=True),),
    )
    enable_streaming_session = field(bool, False, "Allow sessions whose prompt grows while it streams in.")
