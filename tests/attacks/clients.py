"""Hostile clients of the sidecar."""

from __future__ import annotations

import http.client
import json
import socket
from contextlib import ExitStack, suppress
from random import Random
from typing import Any
from urllib.parse import quote, urlsplit

NAME = "attacked"  # the pipeline's
API = f"/api/pipelines/{NAME}"

_PATHS = ["/", "/healthz", "/readyz", "/metrics", f"{API}/status", f"{API}/knobs", f"{API}/knobs/batch.every"]
_PATHS += [
    f"{API}/dead-letters",
    "/../../etc/passwd",
    "/static/%2e%2e/%2e%2e/etc/passwd",
    "/api/%00",
    "/\xfc",
]
_HEADERS = [b"Host: evil.example", b"Host: testserver", b"Authorization: Bearer \xff", b"X: " + b"x" * 9_000]
_HEADERS += [b"Content-Length: -1", b"Content-Length: 99999999999", b"Transfer-Encoding: chunked"]
_HEADERS += [b"Expect: 100-continue", b"Upgrade: h2c", b"Host: 127.0.0.1\r\nHost: 127.0.0.1"]
_CHUNK = b"a" * 65_536
_PASSWORDS = b"root:"


class Attacker:
    """Clients on loopback, one after the other or all at once.

    Args:
        url: of the sidecar.
        token: one that may write.
    """

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._address = parts.hostname, parts.port
        self._token = token

    def ask(self, chance: Random) -> None:
        """Send one request that may be no HTTP, and read whatever comes back.

        Raises:
            AssertionError: the answer is an error of the sidecar, or has a file of the system.
        """
        method = chance.choice(["GET", "PUT", "POST", "DELETE", "G\x00T", "OPTIONS", "TRACE", "x" * 5_000])
        path = chance.choice(_PATHS)
        lines = [f"{method} {path} HTTP/1.{chance.choice('0199')}".encode("utf-8", "replace")]
        lines += chance.choices(_HEADERS, k=chance.randint(0, 4))
        body = chance.randbytes(chance.randint(0, 2_000))
        raw = b"\r\n".join(lines) + b"\r\n\r\n" + body
        if chance.random() < 0.2:
            raw = chance.randbytes(chance.randint(1, 500))
        answer = b""
        with self._connected() as connection, suppress(OSError):
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65_536):
                answer += piece
        assert b"500 Internal" not in answer, (raw, answer[:2_000])
        assert _PASSWORDS not in answer, (raw, answer[:2_000])

    def status_as(self, host: str) -> int:
        """Ask for the state of the pipeline at a host name; returns the answer's status."""
        connection = http.client.HTTPConnection(*self._address, timeout=30)
        connection.request("GET", f"{API}/status", headers={"Host": host})
        status = connection.getresponse().status
        connection.close()
        return status

    def turn(self, name: str, value: Any) -> int:
        """Ask for a turn of a knob as somebody who may; returns the answer's status."""
        connection = http.client.HTTPConnection(*self._address, timeout=30)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        connection.request("PUT", f"{API}/knobs/{quote(name[:2_000])}", json.dumps({"value": value}), headers)
        status = connection.getresponse().status
        connection.close()
        return status

    def half_open(self, count: int) -> ExitStack:
        """So many connections that never send all of a request, or as many as are taken."""
        stack = ExitStack()
        for _ in range(count):
            with suppress(OSError):
                connection = stack.enter_context(socket.create_connection(self._address, timeout=5))
                connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        return stack

    def flood_body(self, size: int) -> int:
        """Send a request with a body of `size` bytes as somebody who may write; returns as `flood`."""
        lines = [f"PUT {API}/knobs/batch.every HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {size}"]
        lines += [f"Authorization: Bearer {self._token}", "", ""]
        return self.flood("\r\n".join(lines).encode(), size)

    def flood(self, head: bytes, size: int) -> int:
        """Send a head and then `size` bytes; returns how many were taken before the sidecar hung up."""
        taken = 0
        with self._connected() as connection, suppress(OSError):
            connection.sendall(head)
            while taken < size:
                connection.sendall(_CHUNK)
                taken += len(_CHUNK)
        return taken

    def is_healthy(self) -> bool:
        connection = http.client.HTTPConnection(*self._address, timeout=10)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def _connected(self) -> socket.socket:
        return socket.create_connection(self._address, timeout=10)
