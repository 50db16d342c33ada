"""The sidecar's connections: how many there may be, and how long each may take for a request."""

from __future__ import annotations

import asyncio
import resource
from enum import Enum

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from endmark.errors import MissingPartError
from endmark_ops.limits import HEAD_SECONDS, REQUESTS, SENT_SECONDS, STREAM_SECONDS, STREAMS

CONNECTIONS = 2 * REQUESTS  # so that at least half of them are free, or wait for the rest of a request
BACKLOG = 100  # connections that asyncio accepts at once, before it can close any
BODY_SECONDS = 10.0
_SURPLUS_BYTES = 65_536  # of a body, after its answer
# The bursts are: accepted, not yet counted, and not yet closed. The rest is for databases, tables and logs.
_FILES = CONNECTIONS + 3 * BACKLOG + 100


class _Waits(Enum):
    """The states in which a connection waits."""

    HEAD = "for the rest of a request's head"
    BODY = "for the rest of its body"
    ANSWER = "for the answer to be made and sent"


class Connection(H11Protocol):
    """A connection of uvicorn's that ends when a request takes too long, or when others need its place.

    A request's head must be there within `HEAD_SECONDS` after the connection or the answer before it, its
    body within `BODY_SECONDS` more, and its answer must have been taken `SENT_SECONDS` after that. When there
    are more than `CONNECTIONS`, the one that has waited longest for a head is closed. `Limits` answers at
    most `REQUESTS` at a time, so there always is such a one, and health checks always find a place.
    """

    _timer: asyncio.TimerHandle | None = None
    _waits = _Waits.HEAD
    _since = 0.0  # by the loop's clock
    _over = False
    _surplus = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._wait(_Waits.HEAD)
        if len(self.connections) > CONNECTIONS:
            others = [each for each in self.connections if isinstance(each, Connection) and not each._over]
            if len(others) > CONNECTIONS:
                free = [each for each in others if each._waits is _Waits.HEAD]
                min(free, key=lambda each: each._since)._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._waits is _Waits.HEAD and self.conn.their_state is h11.SEND_BODY:
            # The answer did not wait for the body, and a client may read it before it sends more.
            self._surplus += len(data)
            if self._surplus > _SURPLUS_BYTES:
                self.flow.pause_reading()
                return
        super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        self._look()

    def on_response_complete(self) -> None:
        self._surplus = 0
        # Before uvicorn takes up a request that is here already.
        self._wait(_Waits.HEAD)
        super().on_response_complete()

    def _look(self) -> None:
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return
        waits = _Waits.BODY if cycle.more_body else _Waits.ANSWER
        if waits is not self._waits:
            self._wait(waits)

    def _wait(self, what: _Waits) -> None:
        self._waits, self._since = what, self.loop.time()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(self._seconds(), self._late)

    def _seconds(self) -> float:
        if self._waits is _Waits.HEAD:
            return HEAD_SECONDS
        if self._waits is _Waits.BODY:
            return BODY_SECONDS
        return SENT_SECONDS + (STREAM_SECONDS if self.scope["path"] in STREAMS else 0.0)

    def _late(self) -> None:
        # An answer that is complete may still be on its way to a slow client.
        sending = self._waits is _Waits.HEAD and self.transport.get_write_buffer_size() > 0
        if sending and self.loop.time() < self._since + SENT_SECONDS:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._late)
        else:
            self._end()

    def _end(self) -> None:
        self._over = True
        # Closing in order would wait for a client that takes nothing.
        self.transport.abort()


def allow_files() -> None:
    """Let this process open as many files as its connections need.

    Raises:
        MissingPartError: the system does not let it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FILES:
        if hard != resource.RLIM_INFINITY and hard < _FILES:
            raise MissingPartError(
                f"the sidecar needs {_FILES} open files, and the system allows {hard}; raise it (ulimit -Hn)"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, hard))
