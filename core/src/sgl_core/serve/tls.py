"""TLS of the HTTP server: files checked before anything slow, and taken up again when they change (``--enable-ssl-refresh``)."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from dataclasses import dataclass

from sgl_core.config import Config, ConfigError, ServerArgs

log = logging.getLogger("sgl.tls")

LOOK_SECONDS = 1.0
"""How often the files are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Key and certificate (PEM). With ``authorities`` clients must show a certificate that one of them signed."""

    certificate: str
    key: str | None = None
    password: str | None = None
    authorities: str | None = None

    def context(self) -> ssl.SSLContext:
        """A context for a server. Raises ConfigError naming the file that is wrong."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            self.load(context)
        except OSError as error:  # ssl.SSLError is one
            raise ConfigError(
                f"TLS: certificate {self.certificate} with key {self.key or self.certificate} cannot be used: "
                f"{_reason(error)}",
                fields=("ssl_certfile", "ssl_keyfile", "ssl_keyfile_password"),
                fix="give a PEM certificate and its own key, and --ssl-keyfile-password where the key has one",
            ) from None
        if self.authorities is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(self.authorities)
            except OSError as error:
                raise ConfigError(
                    f"ssl_ca_certs: {self.authorities} cannot be used: {_reason(error)}", fields=("ssl_ca_certs",)
                ) from None
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Put key and certificate into a context. Raises OSError. An empty password keeps openssl from asking for one."""
        context.load_cert_chain(self.certificate, self.key, self.password or "")

    def state(self) -> tuple[object, ...]:
        """What changes when a file is written or replaced."""
        return tuple(_stat(path) for path in (self.certificate, self.key, self.authorities) if path)


def tls_files(args: ServerArgs | Config) -> TlsFiles | None:
    """The files that the options name, or None for plain HTTP. Raises ConfigError where one is missing."""
    certificate, key = args.get("ssl_certfile"), args.get("ssl_keyfile")
    if certificate:
        return TlsFiles(
            certificate=certificate,
            key=key,
            password=args.get("ssl_keyfile_password"),
            authorities=args.get("ssl_ca_certs"),
        )
    for name in ("ssl_keyfile", "ssl_ca_certs", "ssl_keyfile_password"):
        if args.get(name):
            raise ConfigError(f"{name} is given without a certificate", fields=(name,), fix="add --ssl-certfile FILE")
    if args.get("enable_ssl_refresh"):
        raise ConfigError(
            "enable_ssl_refresh has no certificate to look at",
            fields=("enable_ssl_refresh",),
            fix="add --ssl-certfile FILE and --ssl-keyfile FILE",
        )
    return None


class TlsRefresh:
    """Takes up changed files; connections that are open keep what they began with.

    Files that do not fit together (they are being replaced one after the other) leave the former ones in use until they do. An
    authority that was removed is trusted until a restart: openssl can only add to those of a context.
    """

    def __init__(self, files: TlsFiles, context: ssl.SSLContext) -> None:
        self._files = files
        self._context = context
        self._seen = files.state()
        self._complained = False

    def look(self) -> bool:
        """Look once; true where new files were taken up."""
        now = self._files.state()
        if now == self._seen:
            return False
        try:
            self._files.context()  # a pair that does not fit would leave the live context broken
            self._files.load(self._context)
            if self._files.authorities is not None:
                self._context.load_verify_locations(self._files.authorities)
        except (ConfigError, OSError) as error:
            if not self._complained:
                log.warning("changed TLS files are not taken up yet: %s", error)
            self._complained = True
            return False
        self._seen = now
        self._complained = False
        log.info("took up the changed certificate %s", self._files.certificate)
        return True

    async def run(self) -> None:
        """Look every second, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()


def _stat(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _reason(error: OSError) -> str:
    return error.reason if isinstance(error, ssl.SSLError) and error.reason else error.strerror or str(error)
