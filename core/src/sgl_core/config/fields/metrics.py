"""Metrics, events and traces."""

from __future__ import annotations

from ..declare import Subject, field


class Metrics(Subject):
    """Metrics and traces."""

    namespace = "observability"
    title = "Metrics and traces"

    enable_metrics = field(
        bool,
        False,
        "Publish Prometheus metrics at /metrics. They always are; the flag is taken so that existing command lines work.",
    )
    smg_http_sidecar_port = field(
        int | None,
        None,
        "HTTP port for metrics and profiling in SMG gRPC mode. Unset: --port plus 1.",
        aliases=("--grpc-http-sidecar-port",),
    )
    enable_mfu_metrics = field(bool, False, "Estimate how much of the device's arithmetic is used, as a metric.")
    enable_metrics_for_all_schedulers = field(bool, False, "Publish the metrics of every rank, not only of the first.")
    load_snapshot_publish_interval = field(int, 15, "Decode steps between two load reports for the balancer.")
    tokenizer_metrics_custom_labels_header = field(
        str, "x-custom-labels", "HTTP header in which clients send metric labels."
    )
    tokenizer_metrics_allowed_custom_labels = field(list[str] | None, None, "Labels that clients may send.")
    extra_metric_labels = field(dict[str, str] | None, None, "Labels for every metric, as a JSON object.", parse="json")
    bucket_time_to_first_token = field(
        list[float] | None, None, "Histogram buckets of the time to the first token, in seconds."
    )
    bucket_inter_token_latency = field(
        list[float] | None, None, "Histogram buckets of the time between tokens, in seconds."
    )
    bucket_e2e_request_latency = field(list[float] | None, None, "Histogram buckets of whole requests, in seconds.")
    prompt_tokens_buckets = field(
        list[str] | None, None, "Histogram buckets of prompt lengths: default, tse MIDDLE BASE COUNT, or custom VALUES."
    )
    generation_tokens_buckets = field(
        list[str] | None, None, "Histogram buckets of answer lengths: default, tse MIDDLE BASE COUNT, or custom VALUES."
    )
    kv_events_config = field(
        str | None, None, "Publish cache events (stored, removed) for cache-aware routers: a JSON object."
    )
    load_publish_endpoint = field(
        str | None, None, "Socket on which the server publishes its load: auto, off or an address."
    )
    enable_forward_pass_metrics = field(bool, False, "Publish a record of each step for planners.")
    forward_pass_metrics_worker_id = field(str, "", "Name of this server in the records of each step.")
    forward_pass_metrics_ipc_name = field(str | None, None, "Address on which the records of each step are published.")
    enable_trace = field(bool, False, "Send OpenTelemetry traces. Needs the extra sgl-core[tracing].")
    trace_modules = field(str, "request", "Parts to trace, separated by commas.")
    otlp_traces_endpoint = field(
        str,
        "localhost:4317",
        "HOST:PORT of the OpenTelemetry collector (gRPC), or the URL with path of one that speaks HTTP.",
    )
    export_metrics_to_file = field(bool, False, "Write each request's performance figures to a file.")
    export_metrics_to_file_dir = field(str | None, None, "Folder for the files of --export-metrics-to-file.")
    stat_loggers = field(
        dict[str, type] | None, None, "Classes that receive statistics, by name. From Python only.", cli=False
    )
