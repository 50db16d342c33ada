"""The request to stop, which SIGTERM and SIGINT make."""

from __future__ import annotations

import logging
import signal
import socketserver
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIGNALS = signal.SIGTERM, signal.SIGINT


_print_error = socketserver.BaseServer.handle_error


def _print_nothing(*_: Any) -> None:
    """Take the place of `socketserver.BaseServer.handle_error`."""


class StopRequest:
    """Remembers that a signal has asked this process to stop.

    Until `wait_quietly` is called, a signal also raises KeyboardInterrupt, since a start waits for databases,
    brokers and Java for up to half a minute each. Python drops an exception that is raised in a callback,
    such as one of py4j's. So a start also calls `check` between its steps.

    Attributes:
        event: set once a signal has come.
    """

    def __init__(self) -> None:
        self.event = threading.Event()
        self._raises = True

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals while the body runs. Call this on the main thread."""
        previous = {number: signal.getsignal(number) for number in _SIGNALS}
        self._take()
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
            socketserver.BaseServer.handle_error = _print_error  # type: ignore[method-assign]
            for number, handler in previous.items():
                signal.signal(number, handler)

    def wait_quietly(self) -> None:
        """From now on, let a signal only set `event`.

        A library may have set its own handler, so this sets ours again.

        Raises:
            KeyboardInterrupt: a signal has come already.
        """
        self._raises = False
        self._take()
        self.check()

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come."""
        if self.event.is_set():
            raise KeyboardInterrupt

    def explains(self, error: BaseException) -> bool:
        """Return whether an error comes from the request to stop.

        Service managers and terminals signal all processes of a job at once. The JVM and the Python workers
        then end by themselves, so the driver fails in its next call to one of them.
        """
        if isinstance(error, KeyboardInterrupt):  # PySpark's own handler raises this, too
            self.event.set()
        return self.event.wait(1.0)  # the JVM may be gone a moment before our own signal is handled

    def _take(self) -> None:
        for number in _SIGNALS:
            signal.signal(number, self._handle)

    def _handle(self, *_: Any) -> None:
        self.event.set()
        # The same signal may end the JVM. Then py4j would log each call without an answer, partly by Python's
        # root logger, and PySpark's server for accumulators would print that the JVM hung up.
        logging.disable()
        socketserver.BaseServer.handle_error = _print_nothing  # type: ignore[assignment,method-assign]
        if self._raises:
            raise KeyboardInterrupt
