"""The sidecar as a process: port, announcement and shutdown."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from endmark.errors import MissingPartError
from endmark_ops.server import serve

# A sidecar that never announces itself must not hold up the whole suite.
pytestmark = pytest.mark.timeout(300)

SERVE = """
import sys
from endmark_ops.server import serve
serve(sys.argv[1], on_ready=lambda url: print(url, flush=True))
print("returned")
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    url = f"sqlite:///{tmp_path / 'ops.db'}"
    child = subprocess.Popen([sys.executable, "-c", SERVE, url], stdout=subprocess.PIPE, text=True)
    yield child
    child.kill()
    child.communicate()


def address(process: subprocess.Popen[str]) -> tuple[str, int]:
    assert process.stdout is not None
    url = urlsplit(process.stdout.readline().strip())
    assert url.hostname is not None
    assert url.port is not None
    return url.hostname, url.port


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_server_announces_itself_and_returns_on_signals(
    process: subprocess.Popen[str], stop: signal.Signals
) -> None:
    """It answers on loopback as soon as it said so, and ends in order though a client stays connected."""
    host, port = address(process)
    assert host == "127.0.0.1"
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(19, os.nice(0) + 10)
    connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b'{"status":"alive"}')
    assert answer.getheader("Server") is None
    process.send_signal(stop)
    printed, _ = process.communicate(timeout=60)
    assert (process.returncode, printed) == (0, "returned\n")
    connection.close()


def test_answers_are_not_held_back(process: subprocess.Popen[str]) -> None:
    """On a kept connection an answer takes far less than the 40 ms that TCP may wait to fill a packet.

    Where TCP waits, it does so for every answer but the first. A busy machine makes some take long, not all.
    """
    connection = http.client.HTTPConnection(*address(process), timeout=60)
    seconds = []
    for _ in range(21):
        start = time.perf_counter()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        seconds.append(time.perf_counter() - start)
    connection.close()
    assert min(seconds[1:]) < 0.03


def test_address_of_a_server_that_listens_everywhere_is_one_it_answers_to(tmp_path: Path) -> None:
    """In a container it listens on all addresses, and the machine publishes loopback."""
    code = SERVE.replace("on_ready", 'host="0.0.0.0", on_ready')
    child = subprocess.Popen(
        [sys.executable, "-c", code, f"sqlite:///{tmp_path / 'ops.db'}"], stdout=subprocess.PIPE, text=True
    )
    connection = http.client.HTTPConnection(*address(child), timeout=60)
    connection.request("GET", "/healthz")
    assert connection.getresponse().status == 200
    assert connection.host == "127.0.0.1"
    connection.close()
    child.kill()
    child.communicate()


def test_port_in_use_is_one_clear_error(tmp_path: Path) -> None:
    """A taken port is told with what to do about it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MissingPartError, match=rf"port {port} on 127.0.0.1 is in use; .* another port"):
            serve(f"sqlite:///{tmp_path / 'ops.db'}", port)


def test_second_sidecar_on_a_port_is_refused(process: subprocess.Popen[str], tmp_path: Path) -> None:
    """The port of a running sidecar counts as in use."""
    _, port = address(process)
    with pytest.raises(MissingPartError, match="is in use"):
        serve(f"sqlite:///{tmp_path / 'ops.db'}", port)


def test_foreign_address_cannot_be_opened(tmp_path: Path) -> None:
    """An address that is not this machine's is told with the system's reason."""
    with pytest.raises(MissingPartError, match="cannot be opened"):
        serve(f"sqlite:///{tmp_path / 'ops.db'}", host="192.0.2.1")
