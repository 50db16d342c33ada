"""The way to a server, which can be slow or break in the middle of an answer."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

_PIECE = 4096


class Wire:
    """Relays TCP connections to a port of this machine.

    Attributes:
        port: where it listens.
        breaks_after: bytes of answers after which one connection breaks; it is `None` once that has happened.
        pause: seconds between pieces of an answer.
        connections: how many there have been.
    """

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.breaks_after: int | None = None
        self.pause = 0.0
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                far = socket.create_connection(("127.0.0.1", self._to_port))
                for source, target, answers in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self._relay, args=(source, target, answers), daemon=True).start()

    def _relay(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                if answers and self._is_broken(len(piece)):
                    break
                time.sleep(self.pause if answers else 0)
                target.sendall(piece)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _is_broken(self, size: int) -> bool:
        if self.breaks_after is None:
            return False
        self.breaks_after -= size
        if self.breaks_after > 0:
            return False
        self.breaks_after = None
        return True
