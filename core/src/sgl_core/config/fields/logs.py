"""Logs of the server and of requests."""

from __future__ import annotations

from ..declare import Subject, field


class Logs(Subject):
    """Logging."""

    namespace = "observability"
    title = "Logging"

    log_level = field(str, "info", "")
    log_level_http = field(str | None, None, "")
    log_requests = field(bool, False, "")
    log_requests_level = field(int, 2, "", choices=(0, 1, 2, 3))
    log_requests_format = field(str, "text", "", choices=("text", "json"))
    log_requests_target = field(list[str] | None, None, "")
    uvicorn_access_log_exclude_prefixes = field(list[str], [], "", nargs="*")
    crash_dump_folder = field(str | None, None, "")
    show_time_cost = field(bool, False, "")
    gc_warning_threshold_secs = field(float, 0.0, "")
    decode_log_interval = field(int, 40, "")
    enable_request_time_stats_logging = field(bool, False, "")
