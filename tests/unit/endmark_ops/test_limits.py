"""A sidecar limits strangers' connections, time and memory; sockets and process are real."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import resource
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from endmark_ops.http.limits import REQUESTS
from endmark_ops.log import Throttle
from support.ops_job import API, job_in
from support.ops_tokens import WRITER

pytestmark = pytest.mark.timeout(600)
MEGABYTE = 1_000_000
HALF_OPEN = 1_100  # more than the descriptors of a process that got the usual limit


@dataclass
class Running:
    """A sidecar that may open 1,024 files, as most systems let it."""

    process: subprocess.Popen[str]
    address: tuple[str, int]
    log: Path

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=60)

    def get(self, path: str, host: str = "localhost") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Host": host})
            answer = connection.getresponse()
            return answer.status, answer.read()

    @property
    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    @property
    def peak_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def start(limit: str, directory: Path) -> subprocess.Popen[str]:
    """`endmark ops` under a limit of the shell; what it logs is in `stderr`."""
    command = [sys.executable, "-m", "endmark.cli", "ops", "--port=0", "--json"]
    with (directory / "stderr").open("w") as stderr:
        return subprocess.Popen(
            [
                "sh",
                "-c",
                f'{limit}; exec "$@"',
                "sh",
                *command,
                f"--ops-url=sqlite:///{directory / 'ops.db'}",
            ],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=os.environ | {"ENDMARK_OPS_TOKENS": f"ann:write:{WRITER}"},
        )


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("limits")
    with job_in(directory) as job:
        job.start()
    with start("ulimit -n 1024", directory) as process:
        assert process.stdout is not None
        url = urlsplit(json.loads(process.stdout.readline())["url"])
        assert url.hostname is not None
        assert url.port is not None
        yield Running(process, (url.hostname, url.port), directory / "stderr")
        process.terminate()
        process.wait(timeout=90)


@pytest.fixture
def many_files() -> Iterator[None]:
    """Lets this process open as many connections as the test needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * HALF_OPEN)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def put(token: str, *headers: str) -> bytes:
    """The head of a request that writes."""
    lines = [f"PUT {API}/knobs/x HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def rest(connection: socket.socket) -> bytes:
    """All that comes until the other side closes the connection, or resets it."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65_536):
            got += piece
    return got


def pour(connection: socket.socket, piece: bytes, most: int) -> int:
    """Send `most` bytes, or as many as the other side takes; gives their number."""
    sent = 0
    with contextlib.suppress(ConnectionError, TimeoutError):
        while sent < most:
            connection.sendall(piece)
            sent += len(piece)
    return sent


@pytest.mark.usefixtures("many_files")
def test_half_open_connections_keep_nobody_out(sidecar: Running) -> None:
    """Whoever only connects, or begins a request and goes silent, is closed; the log does not grow."""
    before = sidecar.open_files
    with contextlib.ExitStack() as held:
        for number in range(HALF_OPEN):
            connection = held.enter_context(sidecar.connect())
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: local" if number % 2 else b"")
        assert sidecar.get("/healthz")[0] == 200
        assert sidecar.get(f"{API}/status")[0] == 200
        until = time.monotonic() + 60
        while sidecar.open_files > before + 20 and time.monotonic() < until:
            assert sidecar.get("/healthz")[0] == 200
            time.sleep(0.2)
        assert sidecar.open_files <= before + 20
    assert sidecar.log.stat().st_size < 100_000


def test_a_request_that_comes_letter_by_letter_is_cut_off(sidecar: Running) -> None:
    """Each letter is a sign of life, but a head has its time as a whole; so has a body."""
    slow = [b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", put(WRITER, "Content-Length: 999")]
    with contextlib.ExitStack() as held:
        connections = [held.enter_context(sidecar.connect()) for _ in slow]
        for connection, begun in zip(connections, slow, strict=True):
            connection.sendall(begun)
            connection.settimeout(0.2)
        until = time.monotonic() + 60
        while connections and time.monotonic() < until:
            for connection in list(connections):
                try:
                    connection.sendall(b"x")
                    ended = connection.recv(1000) == b""
                except TimeoutError:
                    continue
                except ConnectionError:
                    ended = True
                if ended:
                    connections.remove(connection)
        assert not connections


def test_a_head_without_end_is_not_read(sidecar: Running) -> None:
    """A header of 200 MB is refused after its first kilobytes, and so is one of 20 kB in one piece."""
    with sidecar.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        assert pour(connection, b"x" * MEGABYTE, 200 * MEGABYTE) < 20 * MEGABYTE
    with sidecar.connect() as connection:
        connection.sendall(f"GET {API}/status HTTP/1.1\r\nHost: localhost\r\nX-Long: {'x' * 20_000}".encode())
        connection.sendall(b"\r\nConnection: close\r\n\r\n")
        assert rest(connection)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 431")
    assert sidecar.get("/healthz")[0] == 200


@pytest.mark.parametrize("token", [WRITER, WRITER[:-1]])
@pytest.mark.parametrize("length", ["Content-Length: 100000000", "Transfer-Encoding: chunked"])
def test_a_body_of_100_megabytes_is_not_read(sidecar: Running, token: str, length: str) -> None:
    """It is refused by what it says of its length, or when it is too long; without a token even sooner."""
    status = b"HTTP/1.1 413" if token == WRITER else b"HTTP/1.1 401"
    before = sidecar.peak_bytes
    with sidecar.connect() as connection:
        head = put(token, length)
        connection.sendall(head)
        piece = b"x" * MEGABYTE
        chunked = "chunked" in length
        sent = pour(connection, b"f4240\r\n" + piece + b"\r\n" if chunked else piece, 100 * MEGABYTE)
        assert sent < 40 * MEGABYTE
    assert sidecar.peak_bytes - before < 40 * MEGABYTE
    with sidecar.connect() as connection:
        connection.sendall(head)
        if chunked:
            pour(connection, b"f4240\r\n" + piece + b"\r\n", 9 * MEGABYTE)
        assert connection.recv(12) == status


def test_readers_without_a_token_fill_no_memory(sidecar: Running) -> None:
    """No read has a use for a body, and 40 of them took 320 MB."""
    head = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7999999\r\n\r\n"
    before = sidecar.peak_bytes
    with contextlib.ExitStack() as held:
        for _ in range(40):
            connection = held.enter_context(sidecar.connect())
            connection.sendall(head)
            connection.settimeout(0.2)
            pour(connection, b"x" * MEGABYTE, 7 * MEGABYTE)
        assert sidecar.peak_bytes - before < 80 * MEGABYTE
    with sidecar.connect() as connection:
        connection.sendall(head)
        assert connection.recv(12) == b"HTTP/1.1 413"
    with sidecar.connect() as connection:
        connection.sendall(head.replace(b"7999999", b"1") + b"x")
        assert connection.recv(12) == b"HTTP/1.1 503"  # as without a body, since the job has no batch


def test_more_requests_than_are_answered_at_a_time_keep_health_in_reach(sidecar: Running) -> None:
    """Requests whose bodies do not come hold places, but no others' places, and only for some seconds."""
    with contextlib.ExitStack() as held:

        def status_behind_many() -> int:
            for _ in range(REQUESTS):
                held.enter_context(sidecar.connect()).sendall(put(WRITER, "Content-Length: 9"))
            return sidecar.get(f"{API}/status")[0]

        # A busy machine may take longer to ask than they hold their places.
        assert any(status_behind_many() == 503 for _ in range(3))
        assert sidecar.get("/healthz")[0] == 200
        until = time.monotonic() + 60
        while sidecar.get(f"{API}/status")[0] == 503 and time.monotonic() < until:
            time.sleep(0.2)
        assert sidecar.get(f"{API}/status")[0] == 200


def test_failed_logins_wait_and_nobody_else(sidecar: Running) -> None:
    """Even from the same address, whoever has the right token and whoever needs none is answered at once."""
    before = sidecar.log.read_text().count("failed login from 127.0.0.1")
    # A busy machine may take longer to ask than the 4 s that the others wait.
    assert any(waits_longer_than_others(sidecar) for _ in range(3))
    logged = sidecar.log.read_text()
    assert 1 <= logged.count("failed login from 127.0.0.1") <= before + 10
    assert WRITER[:-1] not in logged
    shown = sidecar.get("/metrics")[1].decode()
    assert 'endmark_failed_logins_total{reason="unknown"}' in shown


def waits_longer_than_others(sidecar: Running) -> bool:
    """Send 100 failed logins, and return whether one still waits when later requests have their answers."""
    wrong, right = put(WRITER[:-1], "Content-Length: 0"), put(WRITER, "Content-Length: 0")
    with contextlib.ExitStack() as held:
        connections = [held.enter_context(sidecar.connect()) for _ in range(100)]
        for connection in connections:
            connection.sendall(wrong)
        waiting = connections[20]  # the first may have their answers already
        with sidecar.connect() as connection:
            connection.sendall(right)
            assert connection.recv(12) == b"HTTP/1.1 409"  # since no job has described the pipeline
        assert sidecar.get("/healthz")[0] == 200
        answered, _, _ = select.select([waiting], [], [], 0)
        for connection in connections:
            assert connection.recv(12) == b"HTTP/1.1 401"
    return not answered


def test_whatever_is_no_request_is_logged_a_few_times_only(sidecar: Running) -> None:
    before = sidecar.log.read_text().count("Invalid HTTP request")
    for _ in range(300):
        with sidecar.connect() as connection:
            connection.sendall(b"\x16\x03\x01 this is TLS, or anything\r\n\r\n")
            assert rest(connection).startswith(b"HTTP/1.1 400")
    assert 1 <= sidecar.log.read_text().count("Invalid HTTP request") - before <= 10


def test_a_test_clients_host_name_is_not_trusted(sidecar: Running) -> None:
    """It would let a page of that name, on a network where somebody owns it, read the dashboard's figures."""
    assert sidecar.get("/healthz", host="testserver")[0] == 400
    assert sidecar.get("/healthz", host="localhost")[0] == 200


def test_the_sidecar_takes_the_files_it_needs_or_says_that_it_may_not(tmp_path: Path) -> None:
    with start("ulimit -Sn 256", tmp_path) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "ready"
        allowed = Path(f"/proc/{process.pid}/limits").read_text()
        process.terminate()
    assert "256" not in allowed.partition("Max open files")[2].split()[:1]
    with start("ulimit -n 256", tmp_path) as process:
        told, _ = process.communicate(timeout=60)
        assert process.returncode == 2
    assert "needs 900 open files, and the system allows 256" in told


def test_a_line_of_the_log_is_not_written_more_than_a_few_times_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each place in the code has its own count, and the next minute says how much was left out."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    throttle = Throttle()
    caplog.handler.addFilter(throttle)
    logger = logging.getLogger("test")

    def lines(times: int) -> list[str]:
        caplog.clear()
        for _ in range(times):
            logger.warning("too much of %s", "this")
        logger.warning("something else")
        return [record.getMessage() for record in caplog.records]

    assert lines(100) == ["too much of this"] * 5 + ["something else"]
    now += 61
    assert lines(1) == ["too much of this (and 95 times before, not logged)", "something else"]
    caplog.handler.removeFilter(throttle)
