"""Feeds of jobs' news. Each reads the ops database once for all its listeners, and sends news to each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from fastapi.concurrency import run_in_threadpool
from fastapi.sse import ServerSentEvent

from endmark.control.ops_database.batches import FinishedBatch
from endmark_ops.answers import health
from endmark_ops.answers.models import News, Problem
from endmark_ops.answers.status import point_of, status_of
from endmark_ops.readers.source import OpsSource, Run, Snapshot, UnreadableError

LISTENERS = 100
RETRY_MILLISECONDS = 2_000
_MOST_BATCHES = 100  # in one event


class FullError(Exception):
    """An error that refuses another listener; its text says why and is fit for an HTTP client."""


@dataclass(frozen=True)
class _Seen:
    """The facts that clients see. An event is sent when one of them changes."""

    state: str
    run: Run | None
    batch: FinishedBatch | None
    lag: Mapping[str, int] | None


class Feeds:
    """The feeds of all pipelines, with `LISTENERS` listeners at most.

    There is a feed of a pipeline while somebody listens to it. Use this on one event loop only.

    Args:
        make: makes the feed of a pipeline by its name.
    """

    def __init__(self, make: Callable[[str], Feed]) -> None:
        self._make = make
        self._feeds: dict[str, Feed] = {}
        self._listeners = 0
        self._closed = False

    def close(self) -> None:
        """End the streams of all listeners and refuse new ones."""
        self._closed = True
        for feed in self._feeds.values():
            feed.close()

    @contextmanager
    def listening(self, pipeline: str) -> Iterator[Feed]:
        """Take part as one of the listeners for as long as the context lasts.

        Raises:
            FullError: all of them listen already, or the feeds are closed.
        """
        if self._closed:
            raise FullError("the sidecar is about to end; ask again when it is back")
        if self._listeners >= LISTENERS:
            raise FullError(f"{LISTENERS} listen already; ask for status and batches from time to time")
        feed = self._feeds.setdefault(pipeline, self._make(pipeline))
        self._listeners += 1
        try:
            with feed.joined():
                yield feed
        finally:
            self._listeners -= 1
            if not feed.is_heard:
                self._feeds.pop(pipeline, None)


class Feed:
    """A feed that sends the newest event about a job to its listeners.

    While anybody listens, the feed reads the ops database every `read_seconds`. It keeps only the newest
    event. A slow listener skips events, and sees from `after` in the next one that it has missed batches. Use
    a feed on one event loop only.

    Args:
        source: the pipeline's part of the ops database; it is read in a thread.
        stale_seconds: age of the last batch, in seconds, above which a running job counts as stale.
        read_seconds: seconds between two reads.
        stream_seconds: seconds that one listener may stay.
    """

    def __init__(
        self, source: OpsSource, stale_seconds: float, read_seconds: float, stream_seconds: float
    ) -> None:
        self._source = source
        self._stale_seconds = stale_seconds
        self._read_seconds = read_seconds
        self._stream_seconds = stream_seconds
        self._listeners = 0
        self._closed = False
        self._reader: asyncio.Task[None] | None = None
        self._newest: ServerSentEvent | None = None  # made again for a new listener, with current ages
        self._changes = 0
        self._changed = asyncio.Event()  # replaced at each change

    def close(self) -> None:
        """End the streams of all listeners."""
        self._closed = True
        self._wake()

    @property
    def is_heard(self) -> bool:
        """True if somebody listens."""
        return self._listeners > 0

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Read the ops database for one more listener for as long as the context lasts."""
        self._listeners += 1
        self._newest = None
        if self._reader is None:
            self._reader = asyncio.create_task(self._read())
        try:
            yield
        finally:
            self._listeners -= 1
            if not self._listeners:
                self._reader.cancel()
                self._reader = self._newest = None

    async def listen(self) -> AsyncIterator[ServerSentEvent]:
        """Yield the newest event, then newer ones as they come. Call this while it is `joined`.

        The stream ends after `stream_seconds`, when the feed is closed, or when its reader fails.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._stream_seconds
        heard = -1
        while not self._closed and loop.time() < until:
            changed = self._changed
            if self._newest is not None and heard != self._changes:
                heard = self._changes
                yield self._newest
            elif self._reader is None or self._reader.done():
                return  # the reader failed, and the log says why
            else:
                await _set_within(changed, until - loop.time())

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _read(self) -> None:
        seen: _Seen | str | None = None
        try:
            while True:
                now, event = await run_in_threadpool(self._look, seen, self._newest is None)
                if event is not None:
                    self._changes += now != seen
                    self._newest, seen = event, now
                    self._wake()
                await asyncio.sleep(self._read_seconds)
        finally:
            self._wake()

    def _look(self, before: _Seen | str | None, again: bool) -> tuple[_Seen | str, ServerSentEvent | None]:
        """Read the ops database; return the facts seen, and an event if they differ from `before`.

        If the database cannot be read, a text that says so stands in place of the facts, and the event is a
        `problem`. With `again`, there is an event even without a change.
        """
        try:
            snapshot = self._source.snapshot()
            now = _Seen(
                health.state(snapshot, self._stale_seconds), snapshot.run, snapshot.batch, snapshot.lag
            )
            return now, self._news(snapshot, before) if again or now != before else None
        except UnreadableError as error:
            why = error.for_clients()
            known = why == before and not again
            return why, None if known else _event("problem", Problem(detail=why), None)

    def _news(self, snapshot: Snapshot, before: _Seen | str | None) -> ServerSentEvent:
        last = snapshot.batch
        if last is None:
            batches = []
        else:
            sent = before.batch if isinstance(before, _Seen) else None
            # The last batch sent is sent again, since some of its times are known only after its commit.
            after = min(last.batch_id if sent is None else sent.batch_id, last.batch_id) - 1
            batches = [point_of(each) for each in self._source.batches(after, _MOST_BATCHES)]
        news = News(
            after=batches[0].batch_id - 1 if batches else -1,
            batches=batches,
            status=status_of(self._source.pipeline, snapshot, self._stale_seconds),
        )
        return _event("news", news, None if last is None else str(last.batch_id))


def _event(name: str, said: News | Problem, at: str | None) -> ServerSentEvent:
    return ServerSentEvent(event=name, raw_data=said.model_dump_json(), id=at, retry=RETRY_MILLISECONDS)


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
