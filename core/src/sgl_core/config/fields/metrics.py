"""Metrics, events and traces."""

from __future__ import annotations

from ..declare import Subject, field


class Metrics(Subject):
    """Metrics and traces."""

    namespace = "observability"
    title = "Metrics and traces"

    enable_metrics = field(bool, False, "")
    smg_http_sidecar_port = field(int | None, None, "", aliases=("--grpc-http-sidecar-port",))
    enable_mfu_metrics = field(bool, False, "")
    enable_metrics_for_all_schedulers = field(bool, False, "")
    load_snapshot_publish_interval = field(int, 15, "")
    tokenizer_metrics_custom_labels_header = field(str, "x-custom-labels", "")
    tokenizer_metrics_allowed_custom_labels = field(list[str] | None, None, "")
    extra_metric_labels = field(dict[str, str] | None, None, "", parse="json")
    bucket_time_to_first_token = field(list[float] | None, None, "")
    bucket_inter_token_latency = field(list[float] | None, None, "")
    bucket_e2e_request_latency = field(list[float] | None, None, "")
    prompt_tokens_buckets = field(list[str] | None, None, "")
    generation_tokens_buckets = field(list[str] | None, None, "")
    kv_events_config = field(str | None, None, "")
    load_publish_endpoint = field(str | None, None, "")
    enable_forward_pass_metrics = field(bool, False, "")
    forward_pass_metrics_worker_id = field(str, "", "")
    forward_pass_metrics_ipc_name = field(str | None, None, "")
    enable_trace = field(bool, False, "")
    trace_modules = field(str, "request", "")
    otlp_traces_endpoint = field(str, "localhost:4317", "")
    export_metrics_to_file = field(bool, False, "")
    export_metrics_to_file_dir = field(str | None, None, "")
    stat_loggers = field(dict[str, type] | None, None, "", cli=False)
