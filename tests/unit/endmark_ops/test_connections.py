"""A sidecar closes idle and slow connections; its limits differ here, so that none hides another."""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytestmark = pytest.mark.timeout(300)
LONG = 600.0  # seconds: longer than a test takes
SERVE = """
import sys
from endmark_ops.http import connections
from endmark_ops.server import serve
limits = dict(each.split("=") for each in sys.argv[2:])
for name, value in limits.items():
    setattr(connections, name, float(value))
serve(sys.argv[1], on_ready=lambda url: print(url, flush=True))
"""


@dataclass(frozen=True)
class Running:
    """A sidecar's address and process."""

    address: tuple[str, int]
    pid: int

    @property
    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


Start = Callable[..., contextlib.AbstractContextManager[Running]]


@pytest.fixture
def sidecar(tmp_path: Path) -> Start:
    """Starts a sidecar with limits of `endmark_ops.http.connections`."""

    @contextmanager
    def start(**limits: float) -> Iterator[Running]:
        command = [sys.executable, "-c", SERVE, f"sqlite:///{tmp_path / 'ops.db'}"]
        command += [f"{name}={value}" for name, value in limits.items()]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = urlsplit(process.stdout.readline())
            assert url.hostname is not None
            assert url.port is not None
            try:
                yield Running((url.hostname, url.port), process.pid)
            finally:
                process.kill()

    return start


def closed(connections: list[socket.socket], milliseconds: int) -> list[int]:
    """The positions of connections that the other side has closed, waiting so long for one."""
    poll = select.poll()
    places = {connection.fileno(): at for at, connection in enumerate(connections)}
    for number in places:
        poll.register(number, select.POLLRDHUP)
    return sorted(places[number] for number, _ in poll.poll(milliseconds))


def test_of_too_many_connections_the_oldest_are_closed(sidecar: Start) -> None:
    """Though all of them have time left, and only as many as there are too many."""
    with sidecar(CONNECTIONS=20, HEAD_SECONDS=LONG) as running, contextlib.ExitStack() as held:
        connections = []
        for number in range(50):
            connection = held.enter_context(socket.create_connection(running.address))
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: local")
            connections.append(connection)
            if number >= 20:
                assert closed(connections[: number - 19], 60_000)
        while len(closed(connections, 60_000)) < 30:
            pass
        asked = http.client.HTTPConnection(*running.address, timeout=60)
        asked.request("GET", "/healthz")
        assert asked.getresponse().status == 200
        asked.close()
        while len(gone := closed(connections, 60_000)) < 31:
            pass
        assert gone == list(range(31))


def test_a_client_that_does_not_take_its_answer_is_closed(sidecar: Start) -> None:
    """Its answers are more than the buffers of loopback hold."""
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with sidecar(SENT_SECONDS=1.0, HEAD_SECONDS=LONG) as running, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(running.address)
        connection.sendall(asked)
        connection.recv(1)  # so the first answer has opened all the files that answers need
        before = running.open_files
        connection.settimeout(5.0)
        with contextlib.suppress(TimeoutError, ConnectionError):
            connection.sendall(asked * 1000)
        until = time.monotonic() + 120
        while running.open_files >= before:
            assert time.monotonic() < until, "the connection is still open"
            time.sleep(0.1)
