"""A port that stands for another one; what passes through it may be kept waiting, or cut off."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from endmark.embedded.ports import LOOPBACK


class Relay(ABC):
    """Listens on 127.0.0.1, and connects whoever comes to a port there.

    Attributes:
        port: where it listens.
        connections: how many there have been.
    """

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closing alone leaves a thread in `accept`, and the port with it.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @abstractmethod
    def ask(self, near: socket.socket, far: socket.socket) -> None:
        """Pass on what a client says until it hangs up, in a thread of its own."""

    @abstractmethod
    def answer(self, far: socket.socket, near: socket.socket) -> None:
        """Pass on what is answered until the server hangs up, in a thread of its own."""

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                far = socket.create_connection((LOOPBACK, self._to_port))
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for work, ends in ((self.ask, (near, far)), (self.answer, (far, near))):
                    threading.Thread(target=_until_broken, args=(work, *ends), daemon=True).start()


def _until_broken(
    work: Callable[[socket.socket, socket.socket], None], source: socket.socket, target: socket.socket
) -> None:
    with suppress(OSError):
        work(source, target)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
