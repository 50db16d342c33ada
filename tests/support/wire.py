"""The way to a server, which can be slow or break in the middle of an answer."""

from __future__ import annotations

import socket
import time

from endmark_benchmarks.workloads.relay import Relay

_PIECE = 4096


class Wire(Relay):
    """Relays TCP connections to a port of this machine.

    Attributes:
        breaks_after: bytes of answers after which one connection breaks; it is `None` once that has happened.
        pause: seconds between pieces of an answer.
    """

    def __init__(self, to_port: int) -> None:
        super().__init__(to_port)
        self.breaks_after: int | None = None
        self.pause = 0.0

    def ask(self, near: socket.socket, far: socket.socket) -> None:
        while piece := near.recv(_PIECE):
            far.sendall(piece)

    def answer(self, far: socket.socket, near: socket.socket) -> None:
        while piece := far.recv(_PIECE):
            if self._is_broken(len(piece)):
                return
            time.sleep(self.pause)
            near.sendall(piece)

    def _is_broken(self, size: int) -> bool:
        if self.breaks_after is None:
            return False
        self.breaks_after -= size
        if self.breaks_after > 0:
            return False
        self.breaks_after = None
        return True
