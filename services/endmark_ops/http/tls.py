"""TLS of the sidecar: its certificate, and connections whose handshake is not complete."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from endmark.errors import ConfigError
from endmark_ops.http.connections import BACKLOG, Connection
from endmark_ops.http.limits import HEAD_SECONDS

HANDSHAKES = BACKLOG  # connections at a time whose handshake is not complete
_LOG = logging.getLogger(__name__)
# The reasons that a client has for its end of a handshake, in OpenSSL's words, and what to do.
_REMEDIES = {
    "ALERT_UNKNOWN_CA": "give it the authority that signed --certificate (curl --cacert FILE)",
    "ALERT_BAD_CERTIFICATE": "give it the authority that signed --certificate (curl --cacert FILE)",
    "ALERT_CERTIFICATE_EXPIRED": "renew --certificate, and restart the sidecar",
    "HTTP_REQUEST": "it speaks no TLS; let it ask for an https URL",
}


@dataclass(frozen=True)
class Certificate:
    """The certificate that the sidecar shows.

    Args:
        certificate: the file of PEM with the certificate, and with those that lead to its authority.
        key: the file of PEM with its private key, without a password.
    """

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Read both files.

        Raises:
            ConfigError: a file cannot be read, or is no such file, or the key does not belong to the
                certificate.
        """
        for option, file in (("--certificate", self.certificate), ("--key", self.key)):
            try:
                file.read_bytes()
            except OSError as error:
                raise ConfigError(
                    f"{option}: {file} cannot be read ({error.strerror}); name a file of PEM"
                ) from None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            # Without a function for the password, OpenSSL would ask the terminal.
            context.load_cert_chain(self.certificate, self.key, password=self._no_password)
        except ssl.SSLError as error:
            raise ConfigError(
                f"--certificate {self.certificate} and --key {self.key} do not serve "
                f"({error.reason or error}); name a certificate and its own key, both in PEM"
            ) from None
        return context

    def _no_password(self) -> str:
        raise ConfigError(
            f"--key: {self.key} has a password; write one without: openssl pkey -in {self.key} -out FILE"
        )


class Handshake(asyncio.Protocol):
    """A connection until its handshake is complete. Then a `Connection` takes its place.

    A handshake must be complete within `HEAD_SECONDS`. When there are more than `HANDSHAKES`, the oldest is
    closed. Uvicorn's own TLS has neither limit, so silent clients would take all open files.

    Args:
        context: the sidecar's certificate.
        given: what uvicorn gives to a connection.
    """

    _pending: ClassVar[dict[Handshake, asyncio.Transport]] = {}  # the oldest first

    def __init__(self, context: ssl.SSLContext, **given: Any) -> None:
        self._context = context
        self._connection = Connection(**given)
        self._early = b""  # the first bytes of a request, which may come with the end of the handshake
        self._over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake. No byte may be read before."""
        made = cast("asyncio.Transport", transport)
        made.pause_reading()
        self._pending[self] = made
        if len(self._pending) > HANDSHAKES:
            self._pending.pop(next(iter(self._pending))).abort()
        self._task = asyncio.get_running_loop().create_task(self._shake(made))

    def data_received(self, data: bytes) -> None:
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True

    async def _shake(self, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                transport, self, self._context, server_side=True, ssl_handshake_timeout=HEAD_SECONDS
            )
        except (OSError, EOFError) as error:
            transport.abort()
            _log_failure(transport, error)
            return
        finally:
            self._pending.pop(self, None)
        if secured is None or self._over:
            return
        secured.set_protocol(self._connection)
        self._connection.connection_made(secured)
        if self._early:
            self._connection.data_received(self._early)


def connections(context: ssl.SSLContext) -> Callable[..., asyncio.Protocol]:
    """Return the maker of uvicorn's connections, which begins each of them with a handshake."""

    def connection(**given: Any) -> Handshake:
        return Handshake(context, **given)

    return connection


def _log_failure(transport: asyncio.Transport, error: Exception) -> None:
    """Log why a client's handshake failed, if somebody can mend it."""
    reason = getattr(error, "reason", None) or ""
    for known, remedy in _REMEDIES.items():
        if known in reason:
            client = transport.get_extra_info("peername")
            _LOG.warning("TLS with the client at %s fails (%s): %s", client, reason.lower(), remedy)
