"""The queries of a run: one after the other from one checkpoint, and as a rule a single one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JNetworkError
from pyspark.errors import StreamingQueryException

from endmark.driver.failure import failure_of
from endmark.driver.pace import NewPaceError
from endmark.driver.quarantine import QuarantineError
from endmark.errors import EndmarkError
from endmark.spark import plan, query_log

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from endmark.control.pulse import Pulse
    from endmark.control.unread_turns import UnreadTurns
    from endmark.driver.options import JobOptions
    from endmark.driver.pace import Pace
    from endmark.driver.quarantine import Quarantine
    from endmark.pipeline import Pipeline
    from endmark.relation.contract import PageDirectory
    from endmark.spark.sink import Sink

_POLL_SECONDS = 0.2
_STALLED_SECONDS = 10.0
_WAITS = "Waiting for next trigger", "Waiting for data to arrive"  # as Spark says


class StallNotice:
    """Tells when a query does one thing for long, such as asking a broker that is away.

    Args:
        say: is told after 10 s, and again each time that has doubled.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._doing: tuple[str, int] | None = None
        self._since = 0.0
        self._next = _STALLED_SECONDS

    def look(self, message: str, batches: int) -> None:
        """Take Spark's word for what the query does, and how many batches are done."""
        now = time.monotonic()
        if (message, batches) != self._doing:
            self._doing, self._since, self._next = (message, batches), now, _STALLED_SECONDS
        elif message not in _WAITS and now - self._since >= self._next:
            self._say(f"for {now - self._since:.0f} s: {message}")
            self._next *= 2


class JobFailedError(EndmarkError):
    """The query stopped by itself; the text is its cause."""


@dataclass(frozen=True)
class Queries:
    """Starts the queries of a job, one after the other from one checkpoint, and waits for their end.

    Args:
        spark, pipeline, options, sink: the job's own.
        directories: the page directory of each relation, by the relation's name.
        cache_name: the same in all queries of a job; processes of tasks keep caches of R under it.
        partitions: the number of partitions of each topic.
        pace: the size and frequency of batches, read anew for each query.
        quarantine: ends the last query when too many records are dead letters.
        turns: unread turns of knobs, which may end the wait for a batch.
        stalls: tells the user when a query makes no progress.
    """

    spark: SparkSession
    pipeline: Pipeline
    options: JobOptions
    directories: Mapping[str, PageDirectory]
    cache_name: str
    partitions: Mapping[str, int]
    sink: Sink
    pace: Pace
    quarantine: Quarantine
    turns: UnreadTurns
    stalls: StallNotice

    def start(self) -> StreamingQuery:
        """Start one that goes on where the last one has ended."""
        self.pace.start()
        query_log.speak_of_queries(self.spark)
        source = plan.KafkaSource(self.options.bootstrap, dict(self.partitions), self.pace.records)
        frame = plan.build(
            self.spark,
            self.pipeline,
            plan.kafka_records(self.spark, source),
            dict(self.partitions),
            self.directories,
            self.cache_name,
            full_batch=self.pace.full_batch(sum(self.partitions.values())),
        )
        writer = frame.writeStream.queryName(self.pipeline.name).foreachBatch(self.sink)
        return writer.option("checkpointLocation", str(self._checkpoint)).trigger(**self.pace.trigger).start()

    def run(self, query: StreamingQuery, pulse: Pulse, stop: threading.Event) -> None:
        """Watch a query, and those that follow at another pace, until the last one ends or is to stop.

        Args:
            query: the first query.
            pulse: sends pulses and turns.
            stop: is set when the job is to stop.

        Raises:
            JobFailedError: a query has failed.
            QuarantineError: too many records were dead letters.
        """
        while self._is_followed(query, pulse, stop):
            query = self.start()

    def finish(self, pulse: Pulse, stop: threading.Event) -> None:
        """Run on until nothing waits that has been read so far, since a query that ends by itself reads no
        pulse that is sent after its start.

        Raises:
            JobFailedError, QuarantineError: likewise.
        """
        read_until = time.time()
        while pulse.waits_for(read_until) and not stop.wait(max(0.0, (pulse.due or 0.0) - time.time())):
            pulse.beat()
            self.run(self.start(), pulse, stop)

    def _is_followed(self, query: StreamingQuery, pulse: Pulse, stop: threading.Event) -> bool:
        """See to one query; returns whether it has ended for another one."""
        try:
            while query.isActive and not stop.wait(_POLL_SECONDS):
                self.stalls.look(query.status["message"], self.sink.batches)
                if self._is_woken(query, pulse):
                    self.pace.wake()
                if (self.pace.is_new or self.quarantine.is_full) and not query.status["isTriggerActive"]:
                    break
                pulse.turn()
                if pulse.due is not None and not query.status["isDataAvailable"]:
                    pulse.beat()
            query.stop()
            if (failure := query.exception()) is not None and not self._is_due(str(failure)):
                raise JobFailedError(self._with_batch(str(failure)))
        except StreamingQueryException as error:
            if not self._is_due(str(error)):
                raise JobFailedError(self._with_batch(str(error))) from error
        except (Py4JNetworkError, ConnectionError) as error:
            raise JobFailedError(
                self._with_batch(f"the driver's JVM has ended; its log says why ({error})")
            ) from error
        self.quarantine.require_room()
        return self.pace.is_new and not stop.is_set()

    def _is_woken(self, query: StreamingQuery, pulse: Pulse) -> bool:
        """Return whether a turn has come that would wait for long. A query that has just started reads it."""
        if not self.pace.waits_long or query.status["message"] not in _WAITS:
            return False
        return self.turns.beyond(pulse.read)

    def _is_due(self, failure: str) -> bool:
        """Return whether we ended the query by refusing a batch: for the next query, or for good."""
        refusals = {NewPaceError: self.pace.is_new, QuarantineError: self.quarantine.is_full}
        return any(is_so and error.__name__ in failure for error, is_so in refusals.items())

    @property
    def _checkpoint(self) -> Path:
        return self.options.checkpoint.resolve() / "spark"

    def _with_batch(self, failure: str) -> str:
        return failure_of(failure, self.pipeline.name, self._checkpoint, self.options.bootstrap)
