"""TLS with certificates made here: served, refused when wrong, taken up when changed, clients asked for theirs."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from sgl_core.config import ConfigError, ServerArgs
from sgl_core.serve.tls import TlsFiles, TlsRefresh, tls_files

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def pairs(
    tmp_path_factory: pytest.TempPathFactory, certificate: Callable[..., tuple[str, str]]
) -> dict[str, tuple[str, str]]:
    folder = tmp_path_factory.mktemp("tls")
    return {name: certificate(folder, name) for name in ("one", "two")}


def trusting(cert: str, own: tuple[str, str] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=cert)
    if own is not None:
        context.load_cert_chain(*own)
    return context


async def shown_name(port: int, trusted: str) -> str:
    """The name on the certificate that a server shows to a new connection."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(trusted))
    subject = writer.get_extra_info("peercert")["subject"]
    writer.close()
    return str(subject[0][0][1])


async def test_changed_files_are_taken_up_without_a_restart(pairs: dict[str, tuple[str, str]], tmp_path: Path) -> None:
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    shutil.copy(pairs["one"][0], cert)
    shutil.copy(pairs["one"][1], key)
    files = TlsFiles(certificate=cert, key=key)
    context = files.context()
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    refresh = TlsRefresh(files, context)
    assert await shown_name(port, pairs["one"][0]) == "one"
    assert not refresh.look()
    shutil.copy(pairs["two"][0], cert)
    assert not refresh.look()  # the certificate is new, the key is not: the former pair goes on
    assert await shown_name(port, pairs["one"][0]) == "one"
    shutil.copy(pairs["two"][1], key)
    assert refresh.look()
    assert await shown_name(port, pairs["two"][0]) == "two"
    os.unlink(key)
    assert not refresh.look()
    assert await shown_name(port, pairs["two"][0]) == "two"
    server.close()


def test_wrong_files_are_told_at_start(pairs: dict[str, tuple[str, str]], tmp_path: Path, certificate: Any) -> None:
    (one, key), (_, other) = pairs["one"], pairs["two"]
    with pytest.raises(ConfigError, match="cannot be used"):
        TlsFiles(certificate=one, key=other).context()
    with pytest.raises(ConfigError, match=r"none\.pem.*No such file"):
        TlsFiles(certificate=str(tmp_path / "none.pem"), key=key).context()
    with pytest.raises(ConfigError, match="ssl_ca_certs"):
        TlsFiles(certificate=one, key=key, authorities=key).context()
    locked = certificate(tmp_path, "locked", "-passout", "pass:sesame")
    with pytest.raises(ConfigError, match="ssl_keyfile_password"):
        TlsFiles(certificate=locked[0], key=locked[1]).context()
    assert TlsFiles(certificate=locked[0], key=locked[1], password="sesame").context()


@pytest.mark.parametrize(
    "options",
    [{"ssl_keyfile": "k"}, {"ssl_ca_certs": "c"}, {"enable_ssl_refresh": True}, {"ssl_keyfile_password": "p"}],
)
def test_options_without_a_certificate_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="certificate"):
        tls_files(ServerArgs.of(**options))
    assert tls_files(ServerArgs.of()) is None


async def test_the_server_speaks_https_and_asks_clients_for_certificates(
    launch: Callable[..., Any], pairs: dict[str, tuple[str, str]]
) -> None:
    cert, key = pairs["one"]
    process = launch(
        "--ssl-certfile", cert, "--ssl-keyfile", key, "--ssl-ca-certs", pairs["two"][0], "--enable-ssl-refresh"
    )
    url = process.client.url
    assert url.startswith("https://")
    async with httpx.AsyncClient(verify=trusting(cert, pairs["two"])) as client:
        assert (await client.get(f"{url}/health")).status_code == 200
        answer = await client.post(f"{url}/v1/completions", json={"prompt": "hi", "max_tokens": 2})
        assert answer.status_code == 200
    async with httpx.AsyncClient(verify=trusting(cert)) as client:
        with pytest.raises(httpx.TransportError):
            await client.get(f"{url}/health")
