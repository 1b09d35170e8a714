"""The HTTP and gRPC front: addresses, TLS, protocol limits."""

from __future__ import annotations

from ..declare import Subject, field


class Http(Subject):
    """HTTP server."""

    namespace = "serving"
    title = "HTTP server"

    host = field(str, "127.0.0.1", "")
    port = field(int, 30000, "")
    fastapi_root_path = field(str, "", "")
    smg_grpc_mode = field(bool, False, "")
    grpc_mode = field(bool, False, "", replaced_by="smg_grpc_mode")
    grpc_port = field(int | None, None, "")
    grpc_worker_threads = field(int | None, None, "", cli=False)
    sidecar = field(str | None, None, "")
    sidecar_args = field(list[str] | None, None, "", parse="json_list")
    skip_server_warmup = field(bool, False, "")
    warmups = field(str | None, None, "")
    enable_http2 = field(bool, False, "")
    http2_max_concurrent_streams = field(int, 200, "")
    http2_initial_connection_window_size = field(int, 1024 * 1024, "")


class Tls(Subject):
    """TLS."""

    namespace = "serving"
    title = "TLS"

    ssl_keyfile = field(str | None, None, "")
    ssl_certfile = field(str | None, None, "")
    ssl_ca_certs = field(str | None, None, "")
    ssl_keyfile_password = field(str | None, None, "", secret=True)
    enable_ssl_refresh = field(bool, False, "")
