"""The HTTP and gRPC front: addresses, TLS, protocol limits."""

from __future__ import annotations

from ..declare import Subject, field


class Http(Subject):
    """HTTP server."""

    namespace = "serving"
    title = "HTTP server"

    host = field(
        str,
        "127.0.0.1",
        "Address to listen on. 0.0.0.0 or :: accepts connections from other machines; then set --api-key.",
    )
    port = field(int, 30000, "TCP port of the HTTP server.")
    fastapi_root_path = field(
        str, "", "Path prefix under which a reverse proxy publishes the server, for example /llm."
    )
    smg_grpc_mode = field(bool, False, "Serve the gRPC protocol of the SMG router instead of HTTP.")
    grpc_mode = field(bool, False, "Old name of --smg-grpc-mode.", replaced_by="smg_grpc_mode")
    grpc_port = field(int | None, None, "Port of the native gRPC server next to HTTP. Unset: no gRPC.")
    grpc_worker_threads = field(int | None, None, "Threads of the native gRPC server.", cli=False)
    sidecar = field(
        str | None, None, "Python module to run beside the server against its gRPC port; it must have main(argv)."
    )
    sidecar_args = field(
        list[str] | None, None, "Arguments of the sidecar, as a JSON list of strings.", parse="json_list"
    )
    skip_server_warmup = field(
        bool, False, "Do not send the trial request at start. The first real request is then slower."
    )
    warmups = field(str | None, None, "Names of further warm-up functions to run before serving, separated by commas.")
    enable_http2 = field(bool, False, "Speak HTTP/2 as well as HTTP/1.1. Needs the granian server.")
    http2_max_concurrent_streams = field(int, 200, "Most concurrent streams of one HTTP/2 connection.")
    http2_initial_connection_window_size = field(
        int, 1024 * 1024, "First receive window of an HTTP/2 connection, in bytes."
    )


class Tls(Subject):
    """TLS."""

    namespace = "serving"
    title = "TLS"

    ssl_keyfile = field(str | None, None, "Private key file (PEM). With --ssl-certfile the server speaks HTTPS.")
    ssl_certfile = field(str | None, None, "Certificate file (PEM), with the chain.")
    ssl_ca_certs = field(
        str | None,
        None,
        "Certificates (PEM) of the authorities whose client certificates are accepted. Clients must then show one.",
    )
    ssl_keyfile_password = field(str | None, None, "Password of the private key file.", secret=True)
    enable_ssl_refresh = field(bool, False, "Reload key and certificate when the files change, without a restart.")
