"""The HTTP servers of the core in their registry. ``http2`` among a server's flags says that it also speaks HTTP/2."""

from __future__ import annotations

from sgl_core.api.specs import ChoiceSpec

UVICORN = ChoiceSpec(
    name="uvicorn",
    target="sgl_core.serve.servers.uvicorn_server:UvicornServer",
    summary="HTTP/1.1 in Python, the default",
)
GRANIAN = ChoiceSpec(
    name="granian",
    target="sgl_core.serve.servers.granian_server:GranianServer",
    summary="HTTP/2 and HTTP/1.1 in Rust, for --enable-http2",
    requires=("granian",),
    flags=frozenset({"http2"}),
    serves=("enable_http2", "http2_max_concurrent_streams", "http2_initial_connection_window_size"),
)
