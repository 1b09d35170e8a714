"""Logs of the server and of requests."""

from __future__ import annotations

from ..declare import Subject, field


class Logs(Subject):
    """Logging."""

    namespace = "observability"
    title = "Logging"

    log_level = field(str, "info", "Least level that is logged: debug, info, warning, error.")
    log_level_http = field(str | None, None, "Least level of the HTTP server's access log. Unset: as --log-level.")
    log_requests = field(bool, False, "Log requests and answers.")
    log_requests_level = field(
        int,
        2,
        "How much of requests is logged: 0 metadata, 1 sampling parameters too, 2 the beginning of texts, 3 everything.",
        choices=(0, 1, 2, 3),
    )
    log_requests_format = field(str, "text", "text for people, json for machines.", choices=("text", "json"))
    log_requests_target = field(
        list[str] | None,
        None,
        "Where request logs go: stdout, folders (files that rotate), or both. Unset: the server's own log, on stderr.",
    )
    uvicorn_access_log_exclude_prefixes = field(
        list[str], [], "Paths that the access log leaves out, for example /health /metrics.", nargs="*"
    )
    crash_dump_folder = field(
        str | None,
        None,
        "Folder for the requests of the last five minutes when the worker dies. They hold what clients wrote.",
    )
    show_time_cost = field(bool, False, "Log how long marked sections take.")
    gc_warning_threshold_secs = field(
        float, 0.0, "Log garbage collections that take longer than this many seconds; 0 none."
    )
    decode_log_interval = field(int, 40, "Decode steps between two status lines.")
    enable_request_time_stats_logging = field(bool, False, "Log where each request spent its time.")
