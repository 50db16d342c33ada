"""The sidecar's connections, with limits to their number and to the time that each takes for a request."""

from __future__ import annotations

import asyncio
import resource
from enum import Enum

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from endmark.errors import MissingPartError
from endmark_ops.http.limits import HEAD_SECONDS, REQUESTS, SENT_SECONDS, STREAM_SECONDS, STREAMS

CONNECTIONS = 2 * REQUESTS  # so at least half of them are idle, or wait for the rest of a request's head
BACKLOG = 100  # connections that asyncio accepts at once, before it can close any
BODY_SECONDS = 10.0
_SURPLUS_BYTES = 65_536  # the most bytes of a body that are read after the request was answered
# The four bursts of connections are: accepted, in the handshake of TLS, not yet counted, and not yet closed.
# The last 100 files are for databases, tables and logs.
_FILES = CONNECTIONS + 4 * BACKLOG + 100


class _Waits(Enum):
    """The states of a connection, named by the thing that it waits for."""

    HEAD = "for the rest of a request's head"
    BODY = "for the rest of its body"
    ANSWER = "for the answer to be made and sent"


class Connection(H11Protocol):
    """A uvicorn connection that closes itself when a request takes too long, or when others need its place.

    A request's head must be complete within `HEAD_SECONDS` after the connection was made or the last answer
    was sent. Its body must be complete within `BODY_SECONDS` after the head. The client must have taken the
    answer within `SENT_SECONDS` after the body; a stream of events has `STREAM_SECONDS` more.

    When there are more than `CONNECTIONS`, the one that has waited longest for a head is closed. There always
    is one, since `Limits` answers at most `REQUESTS` at a time. So health checks always find a place.
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
            # The request was answered before its body was complete, and the client may still be sending.
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
        # This has to come first: uvicorn then begins with a request that may have come already.
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
        return SENT_SECONDS + (STREAM_SECONDS if STREAMS.fullmatch(self.scope["path"]) else 0.0)

    def _late(self) -> None:
        # A complete answer may still be on its way to a slow client.
        sending = self._waits is _Waits.HEAD and self.transport.get_write_buffer_size() > 0
        if sending and self.loop.time() < self._since + SENT_SECONDS:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._late)
        else:
            self._end()

    def _end(self) -> None:
        self._over = True
        # An orderly close would wait for a client that reads nothing.
        self.transport.abort()


def allow_files() -> None:
    """Raise this process's limit of open files to what its connections need.

    Raises:
        MissingPartError: the system's hard limit is too low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FILES:
        if hard != resource.RLIM_INFINITY and hard < _FILES:
            raise MissingPartError(
                f"the sidecar needs {_FILES} open files, and the system allows {hard}; raise it (ulimit -Hn)"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, hard))
