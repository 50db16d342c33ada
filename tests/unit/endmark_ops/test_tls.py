"""The sidecar over TLS, asked by real clients."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from endmark_ops.http.tls import HANDSHAKES
from support.secured_broker import Certificates

pytestmark = pytest.mark.timeout(300)
_SECONDS = 60
_TOKEN = "a-token-of-16-letters"  # noqa: S105


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates")).make()


def command(files: Certificates, *more: str) -> list[str]:
    program = [sys.executable, "-m", "endmark.cli", "ops", "--json", "--port=0", *more]
    return [*program, f"--ops-url=sqlite:///{files.path('ops.db')}"]


class Sidecar:
    """A sidecar with a certificate for `localhost`, as people start it."""

    def __init__(self, files: Certificates) -> None:
        pair = f"--certificate={files.path('localhost.pem')}", f"--key={files.path('localhost.key')}"
        self._log = files.path("sidecar.log")
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                ["env", f"ENDMARK_OPS_TOKENS=ann:read:{_TOKEN}", *command(files, *pair)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]
        self.port = urlsplit(self.url).port or 0

    def logged(self) -> str:
        return self._log.read_text()

    def asked(self, context: ssl.SSLContext, path: str, **headers: str) -> tuple[int, bytes]:
        client = http.client.HTTPSConnection("localhost", self.port, timeout=_SECONDS, context=context)
        with closing(client):
            client.request("GET", path, headers=headers)
            answer = client.getresponse()
            return answer.status, answer.read()


@pytest.fixture(scope="module")
def sidecar(files: Certificates) -> Iterator[Sidecar]:
    running = Sidecar(files)
    yield running
    running.process.terminate()
    assert running.process.wait(timeout=_SECONDS) == 0


@pytest.fixture
def trusting(files: Certificates) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(files.path("ca.pem")))


def test_requests_are_answered_and_tokens_count(sidecar: Sidecar, trusting: ssl.SSLContext) -> None:
    assert sidecar.url == f"https://127.0.0.1:{sidecar.port}/"
    assert sidecar.asked(trusting, "/healthz") == (200, b'{"status":"alive"}')
    assert sidecar.asked(trusting, "/metrics")[0] == 401
    assert sidecar.asked(trusting, "/metrics", Authorization=f"Bearer {_TOKEN}")[0] == 200
    status, page = sidecar.asked(trusting, "/")
    assert (status, page[:15].lower()) == (200, b"<!doctype html>")


def test_several_requests_on_one_connection(sidecar: Sidecar, trusting: ssl.SSLContext) -> None:
    """The first of them comes with the end of the handshake."""
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        socket.create_connection(("127.0.0.1", sidecar.port), timeout=_SECONDS) as plain,
        trusting.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        assert secured.version() == "TLSv1.3"
        secured.sendall(request * 3)
        received = b""
        while received.count(b"alive") < 3:
            more = secured.recv(65_536)
            assert more, received
            received += more
    assert received.count(b"200 OK") == 3


def test_a_client_with_another_authority_refuses_and_the_log_names_the_remedy(
    sidecar: Sidecar, tmp_path: Path
) -> None:
    stranger = Certificates(tmp_path / "stranger").make()
    other = ssl.create_default_context(cafile=str(stranger.path("ca.pem")))
    with pytest.raises(ssl.SSLCertVerificationError, match=r"unable to get local issuer|signature failure"):
        sidecar.asked(other, "/healthz")
    with closing(http.client.HTTPConnection("127.0.0.1", sidecar.port, timeout=_SECONDS)) as plain:
        plain.request("GET", "/healthz")
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            plain.getresponse()
    wait_until(lambda: "no TLS; let it ask for an https URL" in sidecar.logged())
    assert "give it the authority that signed --certificate (curl --cacert FILE)" in sidecar.logged()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_protocols_are_refused(sidecar: Sidecar, trusting: ssl.SSLContext) -> None:
    trusting.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        sidecar.asked(trusting, "/healthz")


def test_silent_clients_leave_room_and_are_closed(sidecar: Sidecar, trusting: ssl.SSLContext) -> None:
    """Connections without a handshake keep nobody out, and take no more files than there is room for."""
    open_files, silent = Path(f"/proc/{sidecar.process.pid}/fd"), []
    for _ in range(6):
        silent += [socket.create_connection(("127.0.0.1", sidecar.port)) for _ in range(HANDSHAKES)]
        assert sidecar.asked(trusting, "/healthz")[0] == 200
        assert len(list(open_files.iterdir())) < 2 * HANDSHAKES
    for each in silent:
        each.settimeout(_SECONDS)
    assert all(closed(each) for each in silent)


def closed(connection: socket.socket) -> bool:
    with connection:
        try:
            return connection.recv(1) == b""
        except ConnectionResetError:
            return True


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        (["--certificate=localhost.pem"], "give --certificate and --key"),
        (["--key=localhost.key"], "give --certificate and --key"),
        (["--certificate=nowhere.pem", "--key=localhost.key"], "nowhere.pem cannot be read (No such file"),
        (
            ["--certificate=localhost.pem", "--key=job.key"],
            "(KEY_VALUES_MISMATCH); name a certificate and its",
        ),
        (["--certificate=localhost.key", "--key=localhost.pem"], "name a certificate and its own key"),
        (["--certificate=localhost.pem", "--key=locked.key"], "has a password; write one without: openssl"),
    ],
)
def test_files_that_do_not_serve_are_named(files: Certificates, options: list[str], meant: str) -> None:
    if not files.path("locked.key").exists():
        lock = [
            "openssl",
            "pkey",
            "-in",
            "localhost.key",
            "-aes256",
            "-passout",
            "pass:x",
            "-out",
            "locked.key",
        ]
        subprocess.run(lock, cwd=files.directory, check=True)
    done = subprocess.run(
        command(files, *options),
        check=False,
        cwd=files.directory,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    assert done.returncode == 2
    assert meant in done.stdout
