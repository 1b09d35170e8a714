"""Defaults and refusals of the serving side: names, devices, media, transport, gRPC, tokenizer, what replaces old flags."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, suggest

from .asking import in_order
from .machine import number, switch

_PARSER_RENAMES = {"qwen25": "qwen", "glm45": "glm"}
_BACKEND_FIELDS = (
    "attention_backend",
    "decode_attention_backend",
    "prefill_attention_backend",
    "speculative_draft_attention_backend",
)
_MEDIA = ("image", "video", "audio")


@rule(
    stage="sources",
    reads=("moe_runner_backend",),
    writes=("moe_runner_backend", "moe_a2a_backend"),
)
def moe_runner_alias(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """``megamoe`` names a dispatcher with its own runner, not a runner alone."""
    if view.moe_runner_backend == "megamoe":
        because = "megamoe fuses dispatch and expert multiplication: it is chosen as the dispatcher"
        yield force("moe_runner_backend", "auto", because)
        yield force("moe_a2a_backend", "megamoe", because)


@rule(
    stage="sources",
    reads=("return_hidden_states_mode", "enable_return_hidden_states"),
    writes=("return_hidden_states_mode", "enable_return_hidden_states"),
)
def hidden_states_mode(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The switch and the mode of returned hidden states imply each other."""
    mode = view.return_hidden_states_mode
    yield require(
        mode in (None, "last", "full"),
        f"there is no hidden-states mode {mode!r}",
        fix="use last or full",
        fields=("return_hidden_states_mode",),
    )
    if mode is not None:
        yield force("enable_return_hidden_states", True, "a mode was given, so the states are returned")
    elif view.enable_return_hidden_states:
        yield suggest("return_hidden_states_mode", "full", "returning hidden states without a mode means all positions")


@rule(stage="sources", reads=("allowed_media_domains", "media_url_max_file_size_mb"), writes=("allowed_media_domains",))
def media_domains(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Media hosts are compared in one spelling."""
    yield require(
        view.media_url_max_file_size_mb >= 0,
        "a size limit for media files cannot be negative",
        fields=("media_url_max_file_size_mb",),
    )
    given = list(view.allowed_media_domains or ())
    spelled = sorted({domain.strip().lower().rstrip(".") for domain in given})
    if spelled != given:
        yield force("allowed_media_domains", spelled, "host names compare in lower case, sorted, without repeats")


@rule(stage="sources", reads=("prefill_decode_interval",))
def prefill_interval(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Steps between prefills are counted from zero."""
    interval = view.prefill_decode_interval
    yield require(interval >= 0, "an interval cannot be negative", fields=("prefill_decode_interval",))


@rule(stage="sources", reads=("mm_process_config", "mm_preprocess_cache_size_mb"), writes=("mm_process_config",))
def media_processing(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Processor settings are one object per kind of media."""
    size = view.mm_preprocess_cache_size_mb
    yield require(size is None or size >= 0, "a cache size cannot be negative", fields=("mm_preprocess_cache_size_mb",))
    settings = view.mm_process_config
    if settings is None:
        return
    yield require(
        isinstance(settings, dict) and all(isinstance(settings.get(kind, {}), dict) for kind in _MEDIA),
        "media processing settings are a JSON object of JSON objects",
        fix='for example {"image": {"max_pixels": 1048576}}',
        fields=("mm_process_config",),
        kind="TypeError",
    )


@rule(
    stage="sources",
    reads=(
        "ssl_keyfile",
        "ssl_certfile",
        "ssl_ca_certs",
        "ssl_keyfile_password",
        "enable_ssl_refresh",
        "enable_http2",
        "http2_initial_connection_window_size",
        "http2_max_concurrent_streams",
    ),
)
def tls_files(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """TLS needs a key and a certificate together; everything else about TLS needs both."""
    key, certificate = bool(view.ssl_keyfile), bool(view.ssl_certfile)
    yield require(
        key == certificate,
        "TLS needs the private key and the certificate together",
        fix="give both --ssl-keyfile and --ssl-certfile, or neither",
        fields=("ssl_keyfile", "ssl_certfile"),
    )
    needless = [name for name in ("ssl_ca_certs", "ssl_keyfile_password", "enable_ssl_refresh") if getattr(view, name)]
    yield require(
        certificate or not needless,
        "these settings have no effect without TLS",
        fix="give --ssl-keyfile and --ssl-certfile",
        fields=tuple(needless),
    )
    if not view.enable_http2:
        return
    yield require(
        0 < view.http2_max_concurrent_streams < 2**32,
        "HTTP/2 counts streams in 32 bits",
        fields=("http2_max_concurrent_streams",),
    )
    yield require(
        1024 <= view.http2_initial_connection_window_size < 2**31,
        "an HTTP/2 window lies between 1024 and 2147483647 bytes",
        fields=("http2_initial_connection_window_size",),
    )
    yield require(
        "granian" in facts.libraries, "HTTP/2 is served by granian, which is not installed", fields=("enable_http2",)
    )
    yield require(
        not view.enable_ssl_refresh,
        "the HTTP/2 server cannot reload certificates",
        fields=("enable_http2", "enable_ssl_refresh"),
    )


@rule(stage="sources", reads=("asr_max_buffer_seconds", "asr_max_concurrent_sessions"))
def transcription_limits(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Transcription needs room for at least some audio and one session."""
    for name in ("asr_max_buffer_seconds", "asr_max_concurrent_sessions"):
        yield require(getattr(view, name) > 0, "this limit must be positive", fields=(name,))


@rule(
    stage="sources",
    reads=(
        "disable_fast_image_processor",
        "image_processor_backend",
        "tool_call_parser",
        "grpc_mode",
        "enable_flashinfer_allreduce_fusion",
        "flashinfer_allreduce_fusion_backend",
        "smg_grpc_mode",
    ),
    writes=(
        "image_processor_backend",
        "tool_call_parser",
        "flashinfer_allreduce_fusion_backend",
        "enable_flashinfer_allreduce_fusion",
        "smg_grpc_mode",
        *_BACKEND_FIELDS,
    ),
)
def retired_flags(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """What older flags and values mean today."""
    if view.disable_fast_image_processor:
        yield require(
            view.image_processor_backend in ("auto", "pil"),
            "the retired switch asks for the PIL processor, and another one was named",
            fix="drop --disable-fast-image-processor",
            fields=("disable_fast_image_processor", "image_processor_backend"),
        )
        yield force("image_processor_backend", "pil", "--disable-fast-image-processor now means the PIL processor")
    if view.tool_call_parser in _PARSER_RENAMES:
        yield force("tool_call_parser", _PARSER_RENAMES[view.tool_call_parser], "the parser was renamed")
    if view.enable_flashinfer_allreduce_fusion:
        if view.flashinfer_allreduce_fusion_backend is None:
            yield suggest("flashinfer_allreduce_fusion_backend", "auto", "the retired switch asks for fusion")
        yield force("enable_flashinfer_allreduce_fusion", False, "replaced by flashinfer_allreduce_fusion_backend")
    for name in _BACKEND_FIELDS:
        if view.given(name) == "compressed":
            yield force(name, "dsv4", "the backend compressed is called dsv4 now")
    if view.grpc_mode and not view.smg_grpc_mode:
        yield suggest("smg_grpc_mode", True, "--grpc-mode was renamed")


@rule(
    stage="sources",
    reads=(
        "smg_grpc_mode",
        "grpc_mode",
        "grpc_port",
        "port",
        "sidecar",
        "sidecar_args",
        "use_ray",
        "encoder_only",
        "admin_api_key",
        "api_key",
        "tokenizer_worker_num",
        "grpc_worker_threads",
    ),
    writes=("grpc_port", "grpc_worker_threads"),
)
def grpc_listener(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Where gRPC listens, and what it cannot be combined with."""
    threads = number(facts, "SGLANG_GRPC_WORKER_THREADS", 4)
    if view.grpc_worker_threads != threads:
        yield force("grpc_worker_threads", threads, "four threads, unless SGLANG_GRPC_WORKER_THREADS says otherwise")
    port = view.grpc_port
    if port is None and facts.env.get("SGLANG_GRPC_PORT"):
        port = number(facts, "SGLANG_GRPC_PORT", 0)
        yield suggest("grpc_port", port, "taken from SGLANG_GRPC_PORT")
    gateway = bool(view.smg_grpc_mode or view.grpc_mode)
    if gateway and port is None:
        port = view.port + 10000
        yield suggest("grpc_port", port, "the gateway's gRPC listens 10000 above the HTTP port")
    if port is not None:
        yield require(1 <= port <= 65535, "a port lies between 1 and 65535", fields=("grpc_port",))
        yield require(threads >= 1, "gRPC needs a worker thread", fields=("grpc_worker_threads",))
    if view.sidecar_args is not None:
        yield require(view.sidecar is not None, "arguments for a sidecar without a sidecar", fields=("sidecar_args",))
        yield require(
            isinstance(view.sidecar_args, list) and all(isinstance(item, str) for item in view.sidecar_args),
            "sidecar arguments are a JSON list of strings",
            fields=("sidecar_args",),
        )
    if view.sidecar is not None:
        yield require(bool(view.sidecar.strip()), "the sidecar command is empty", fields=("sidecar",))
        yield require(
            not gateway and port is not None,
            "a sidecar talks to the native gRPC listener",
            fix="give --grpc-port and leave --smg-grpc-mode away",
            fields=("sidecar", "grpc_port", "smg_grpc_mode"),
        )
    if port is None or gateway:
        return
    for name, clash in (
        ("use_ray", bool(view.use_ray)),
        ("encoder_only", bool(view.encoder_only)),
        ("tokenizer_worker_num", view.tokenizer_worker_num > 1),
        ("api_key", bool(view.api_key or view.admin_api_key)),
    ):
        yield require(not clash, "the native gRPC listener does not support this", fields=("grpc_port", name))


@rule(
    stage="sources",
    writes=("enable_prefill_delayer", "prefill_delayer_max_delay_passes", "prefill_delayer_token_usage_low_watermark"),
)
def prefill_delayer_env(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The prefill delayer's environment switches still count."""
    if switch(facts, "SGLANG_SCHEDULER_DECREASE_PREFILL_IDLE"):
        yield force("enable_prefill_delayer", True, "SGLANG_SCHEDULER_DECREASE_PREFILL_IDLE is set")
    passes = number(facts, "SGLANG_PREFILL_DELAYER_MAX_DELAY_PASSES", 0)
    if passes:
        yield force("prefill_delayer_max_delay_passes", passes, "SGLANG_PREFILL_DELAYER_MAX_DELAY_PASSES is set")
    watermark = float(facts.env.get("SGLANG_PREFILL_DELAYER_TOKEN_USAGE_LOW_WATERMARK") or 0)
    if watermark:
        yield force(
            "prefill_delayer_token_usage_low_watermark",
            watermark,
            "SGLANG_PREFILL_DELAYER_TOKEN_USAGE_LOW_WATERMARK is set",
        )


@rule(
    stage="sources",
    reads=(
        "tokenizer_path",
        "served_model_name",
        "device",
        "mm_process_config",
        "quantization",
        "model_path",
        "speculative_draft_model_quantization",
        "_speculative_draft_quantization_explicitly_set",
    ),
    writes=(
        "tokenizer_path",
        "served_model_name",
        "device",
        "mm_process_config",
        "quantization",
        "speculative_draft_model_quantization",
        "_speculative_draft_quantization_explicitly_set",
    ),
)
def missing_values(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """What follows from the model's path, the machine and the other quantization field."""
    if view.tokenizer_path is None:
        yield suggest("tokenizer_path", view.model_path, "the tokenizer lies with the model")
    if view.served_model_name is None:
        yield suggest("served_model_name", view.model_path, "clients know the model by its path")
    if view.device is None:
        yield suggest("device", facts.device or facts.platform, "the platform that was found")
    elif ":" in view.device:
        yield force("device", view.device.split(":")[0], "device indices are assigned per rank")
    if view.mm_process_config is None:
        yield suggest("mm_process_config", {}, "no processor settings")
    draft = view.speculative_draft_model_quantization
    if view._speculative_draft_quantization_explicitly_set is None:
        yield suggest(
            "_speculative_draft_quantization_explicitly_set", draft is not None, "whether the draft's method was named"
        )
    if draft is None and view.quantization not in (None, "unquant"):
        yield suggest("speculative_draft_model_quantization", view.quantization, "the draft follows the model")
    if draft == "unquant":
        yield force("speculative_draft_model_quantization", None, "the draft keeps its weights as they are")
    if view.quantization == "unquant":
        yield force("quantization", None, "the weights stay as they are")


@rule(stage="attention", reads=("grammar_backend",), writes=("grammar_backend",))
def grammar_default(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Constrained decoding uses xgrammar unless another backend is named."""
    if view.grammar_backend is None:
        yield suggest("grammar_backend", "xgrammar", "the fastest of the grammar backends for JSON schemas")


@rule(
    stage="features",
    reads=(
        "enable_tokenizer_batch_encode",
        "enable_dynamic_batch_tokenizer",
        "skip_tokenizer_init",
        "detokenizer_worker_num",
    ),
    writes=("detokenizer_worker_num", "enable_tokenizer_batch_encode", "enable_dynamic_batch_tokenizer"),
    after=("encoder_roles",),
)
def tokenizer_batching(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """One way of batching the tokenizer at a time, none without a tokenizer."""
    yield require(
        not (view.enable_tokenizer_batch_encode and view.enable_dynamic_batch_tokenizer),
        "two ways of batching the tokenizer exclude each other",
        fix="choose --enable-tokenizer-batch-encode or --enable-dynamic-batch-tokenizer",
        fields=("enable_tokenizer_batch_encode", "enable_dynamic_batch_tokenizer"),
    )
    if not view.skip_tokenizer_init or switch(facts, "SGLANG_RUST_SERVER"):
        return
    if view.detokenizer_worker_num != 1:
        yield force("detokenizer_worker_num", 1, "without a tokenizer there is nothing to spread over workers")
    for name in ("enable_tokenizer_batch_encode", "enable_dynamic_batch_tokenizer"):
        if getattr(view, name):
            yield force(name, False, "there is no tokenizer to batch")


@rule(stage="features", reads=("default_chat_template_kwargs", "limit_mm_data_per_request"))
def request_defaults(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Template defaults are a JSON object; media are limited by kind."""
    given = view.default_chat_template_kwargs
    yield require(
        given is None or isinstance(given, dict),
        "template arguments are a JSON object",
        fields=("default_chat_template_kwargs",),
    )
    limits = view.limit_mm_data_per_request
    yield require(
        not isinstance(limits, dict) or set(limits) <= set(_MEDIA),
        f"media are limited by kind: {', '.join(_MEDIA)}",
        fields=("limit_mm_data_per_request",),
    )


RULES = in_order(
    moe_runner_alias,
    hidden_states_mode,
    media_domains,
    prefill_interval,
    media_processing,
    tls_files,
    transcription_limits,
    retired_flags,
    prefill_delayer_env,
    grpc_listener,
    missing_values,
    grammar_default,
    tokenizer_batching,
    request_defaults,
)
