"""What clients see: keys, names, templates, parsers, streaming."""

from __future__ import annotations

from typing import Any

from ..declare import OldFlag, Subject, field, from_registry


class Interface(Subject):
    """API."""

    namespace = "serving"
    title = "API"

    api_key = field(str | None, None, "", secret=True)
    admin_api_key = field(str | None, None, "", secret=True)
    served_model_name = field(str | None, None, "")
    weight_version = field(str, "default", "")
    chat_template = field(str | None, None, "")
    hf_chat_template_name = field(str | None, None, "")
    completion_template = field(str | None, None, "")
    file_storage_path = field(str, "sglang_storage", "")
    enable_cache_report = field(bool, False, "")
    return_input_ids = field(bool, False, "")
    return_output_ids = field(bool, False, "")
    reasoning_parser = field(str | None, None, "", choices=from_registry("reasoning_parsers", "auto"))
    default_chat_template_kwargs = field(dict[str, Any] | None, None, "", parse="json")
    strip_thinking_cache = field(bool, False, "")
    enable_strict_thinking = field(bool, False, "")
    tool_call_parser = field(str | None, None, "", choices=from_registry("tool_parsers", "auto"))
    tool_server = field(str | None, None, "")
    sampling_defaults = field(str, "model", "", choices=("openai", "model"))
    asr_max_buffer_seconds = field(int, 60, "")
    asr_max_concurrent_sessions = field(int, 32, "")
    preferred_sampling_params = field(str | None, None, "", parse="json")
    allow_auto_truncate = field(bool, False, "")


class Constrained(Subject):
    """Constrained decoding."""

    namespace = "serving"
    title = "Constrained decoding"

    constrained_json_whitespace_pattern = field(str | None, None, "")
    constrained_json_disable_any_whitespace = field(bool, False, "")


class Streaming(Subject):
    """Streaming."""

    namespace = "serving"
    title = "Streaming"

    stream_interval = field(int, 1, "")
    batch_notify_size = field(int, 16, "")
    stream_response_default_include_usage = field(bool, False, "")
    incremental_streaming_output = field(
        bool, False, "", old_flags=(OldFlag("--stream-output", use="--incremental-streaming-output", store=True),)
    )
    enable_streaming_session = field(bool, False, "")
