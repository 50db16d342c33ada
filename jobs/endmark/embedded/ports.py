"""Ports of 127.0.0.1 for embedded servers."""

from __future__ import annotations

import errno
import random
import socket
import time

from endmark.errors import MissingPartError

LOOPBACK = "127.0.0.1"

_GRACE_SECONDS = 3.0
_POLL_SECONDS = 0.05
# Linux takes the ports of outgoing connections from 32768 on, and macOS from 49152 on. A free port from there
# was once taken by another program's connection in the seconds until the broker listened.
_PORTS = range(20_000, 32_768)
_TRIES = 100


def free_port() -> int:
    """Return a random TCP port of 127.0.0.1 that nothing listens on now and no outgoing connection takes.

    Raises:
        MissingPartError: none of 100 random ports is free.
    """
    # Parallel processes of tests seed the module's generator alike, so the operating system's is used.
    chance = random.SystemRandom()
    for _ in range(_TRIES):
        port = chance.choice(_PORTS)
        if _refusal(port) is None:
            return port
    raise MissingPartError(
        f"{_TRIES} random ports from {_PORTS.start} to {_PORTS.stop - 1} of {LOOPBACK} are all in use; "
        "stop what listens there"
    )


def require_free_port(port: int, part: str) -> None:
    """Wait up to 3 s until a server can listen on a port of 127.0.0.1; `part` is the server's name.

    Raises:
        MissingPartError: the port stays in use, or cannot be used.
    """
    # A server that was killed a moment ago holds its port until the kernel has removed the process.
    deadline = time.monotonic() + _GRACE_SECONDS
    while error := _refusal(port):
        if time.monotonic() > deadline:
            where = f"{part}: port {port} of {LOOPBACK}"
            if error.errno == errno.EADDRINUSE:
                raise MissingPartError(f"{where} is in use; stop what listens there or give another port")
            raise MissingPartError(f"{where} cannot be used: {error.strerror}; give another port")
        time.sleep(_POLL_SECONDS)


def _refusal(port: int) -> OSError | None:
    with socket.socket() as probe:
        # Servers set this option, too. With it, connections that linger after a restart do not block the
        # port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            return error
    return None


def listens(port: int) -> bool:
    """Return whether something accepts connections on 127.0.0.1:`port`."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0
