"""A database made far away: what clients say to it arrives later than it was said."""

from __future__ import annotations

import socket
import threading
import time
from queue import SimpleQueue

from endmark_benchmarks.workloads.relay import Relay

_CHUNK = 1 << 18


class Faraway(Relay):
    """Stands for a port that is `seconds` away on the way there.

    A statement waits once, however long it is and however many wait at the same time. Answers come at once.
    """

    def __init__(self, to_port: int, seconds: float) -> None:
        super().__init__(to_port)
        self._seconds = seconds

    def ask(self, near: socket.socket, far: socket.socket) -> None:
        said: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
        threading.Thread(target=self._hear, args=(near, said), daemon=True).start()
        while True:
            due, data = said.get()
            time.sleep(max(0.0, due - time.monotonic()))
            if not data:
                return
            far.sendall(data)

    def answer(self, far: socket.socket, near: socket.socket) -> None:
        while data := far.recv(_CHUNK):
            near.sendall(data)

    def _hear(self, near: socket.socket, said: SimpleQueue[tuple[float, bytes]]) -> None:
        data = b"?"
        while data:
            try:
                data = near.recv(_CHUNK)
            except OSError:
                data = b""
            said.put((time.monotonic() + self._seconds, data))
