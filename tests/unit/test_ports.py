"""Free ports for embedded servers."""

from __future__ import annotations

import socket

import pytest

from endmark.embedded import ports
from endmark.embedded.ports import LOOPBACK, free_port
from endmark.errors import MissingPartError


def test_no_outgoing_connection_can_take_a_free_port() -> None:
    with (
        socket.create_server((LOOPBACK, 0)) as server,
        socket.create_connection(server.getsockname()) as connection,
    ):
        taken = connection.getsockname()[1]
    assert max(free_port() for _ in range(50)) < 32_768 <= taken


def test_a_port_in_use_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, free = free_port(), free_port()
    monkeypatch.setattr(ports, "_PORTS", [taken] * 9 + [free])
    with socket.create_server((LOOPBACK, taken)):
        assert free_port() == free


def test_no_free_port_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(ports, "_PORTS", range(port, port + 1))
        with pytest.raises(MissingPartError, match=rf"100 random ports from {port} to {port} of "):
            free_port()
