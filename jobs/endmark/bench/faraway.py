"""A database made far away: what clients say to it arrives later than it was said."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from endmark.parts.ports import LOOPBACK

_CHUNK = 1 << 18


class Faraway:
    """A port of 127.0.0.1 that stands for another one, `seconds` away on the way there.

    A statement waits once, however long it is and however many wait at the same time. Answers come at once.
    """

    def __init__(self, port: int, seconds: float) -> None:
        self._target = port
        self._seconds = seconds
        self._server = socket.create_server((LOOPBACK, 0))
        self.port: int = self._server.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closing alone leaves a thread in `accept`, and the port with it.
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._server.accept()
                server = socket.create_connection((LOOPBACK, self._target))
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                said: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
                for work in (
                    lambda client=client, said=said: self._hear(client, said),
                    lambda server=server, said=said: self._pass_on(server, said),
                    lambda server=server, client=client: _answer(server, client),
                ):
                    threading.Thread(target=work, daemon=True).start()

    def _hear(self, client: socket.socket, said: SimpleQueue[tuple[float, bytes]]) -> None:
        data = b"?"
        while data:
            try:
                data = client.recv(_CHUNK)
            except OSError:
                data = b""
            said.put((time.monotonic() + self._seconds, data))

    def _pass_on(self, server: socket.socket, said: SimpleQueue[tuple[float, bytes]]) -> None:
        with suppress(OSError), server:
            while True:
                due, data = said.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    server.shutdown(socket.SHUT_RDWR)
                    return
                server.sendall(data)


def _answer(server: socket.socket, client: socket.socket) -> None:
    with suppress(OSError), client:
        while data := server.recv(_CHUNK):
            client.sendall(data)
