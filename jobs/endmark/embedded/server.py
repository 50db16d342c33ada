"""The base of embedded servers: an object that starts, stops and kills a server on this machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from endmark.embedded.ports import free_port
from endmark.embedded.process import ManagedProcess


class Part(ABC):
    """A server on 127.0.0.1 with its own directory and port. It ends with this process.

    Args:
        data_dir: the server's directory.
        port: the server's port; `None` takes a free one.
    """

    def __init__(self, data_dir: Path, port: int | None = None) -> None:
        self._data_dir = data_dir.absolute()
        self._port = port or free_port()
        self._process: ManagedProcess | None = None

    @abstractmethod
    def start(self) -> None:
        """Start the server, and return once it answers."""

    @property
    def pid(self) -> int | None:
        """The id of the process; `None` if the server is not started."""
        return self._process.pid if self._process else None

    @property
    def running(self) -> bool:
        """True while the process of a started server lives."""
        return self._process is not None and self._process.running

    def stop(self) -> None:
        """Shut the server down in order. Idempotent."""
        if self._process:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """End the server as a crash would. Idempotent."""
        if self._process:
            self._process.kill()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
