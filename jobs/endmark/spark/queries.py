"""The queries of a run, one after the other from one checkpoint. Most runs have a single query."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException, StreamingQueryException

from endmark.driver.failure import failure_of
from endmark.driver.pace import NewPaceError
from endmark.driver.quarantine import QuarantineError
from endmark.engine.streams import record_needs
from endmark.errors import EndmarkError
from endmark.spark import plan, query_log
from endmark.spark.interruption import shortly_interrupted
from endmark.spark.kafka_source import KafkaSource

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from endmark.control.pulse import Pulse
    from endmark.control.tuning.unread_turns import UnreadTurns
    from endmark.driver.options import JobOptions
    from endmark.driver.pace import Pace
    from endmark.driver.quarantine import Quarantine
    from endmark.engine.earlier_buckets import EarlierBuckets
    from endmark.kafka.gaps import Gap
    from endmark.kafka.offsets import Offsets
    from endmark.pipeline import Pipeline
    from endmark.spark.sink import Sink
    from endmark.storage import Location

_POLL_SECONDS = 0.2
_STALLED_SECONDS = 10.0
_WAITS = "Waiting for next trigger", "Waiting for data to arrive"  # Spark's own texts


class StallNotice:
    """Notices when a query does one thing for long, such as asking a broker that does not answer.

    Args:
        say: called with a line after 10 s, and again after 20 s, 40 s and so on.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._doing: tuple[str, int] | None = None
        self._since = 0.0
        self._next = _STALLED_SECONDS

    def look(self, message: str, batches: int) -> None:
        """Compare the query's state with the one of the last call, and say so if it has not changed for long.

        Args:
            message: Spark's text for what the query does now.
            batches: the number of batches that are done.
        """
        now = time.monotonic()
        if (message, batches) != self._doing:
            self._doing, self._since, self._next = (message, batches), now, _STALLED_SECONDS
        elif message not in _WAITS and now - self._since >= self._next:
            self._say(f"for {now - self._since:.0f} s: {message}")
            self._next *= 2


class JobFailedError(EndmarkError):
    """The query failed; the text is the cause."""


@dataclass(frozen=True)
class Queries:
    """Starts the queries of a job, one after the other from one checkpoint, and waits for their end.

    Args:
        spark: the session.
        pipeline: the job's pipeline.
        options: the job's options.
        relations: how tasks find the relations.
        partitions: the number of partitions of each topic.
        start_offsets: the offsets at which the first batch of the checkpoint begins.
        topic_ids: the ids of the topics that the checkpoint has read.
        gaps: the offsets that batches skip.
        fewer: the buckets that there were, while no batch has been committed since they were split.
        sink: the job's sink.
        pace: the size and frequency of batches, which each query reads when it starts.
        quarantine: ends the last query when too many records are dead letters.
        turns: unread turns of knobs, which may end a query that waits long for a batch.
        stalls: says when a query makes no progress.
    """

    spark: SparkSession
    pipeline: Pipeline
    options: JobOptions
    relations: plan.Relations
    partitions: Mapping[str, int]
    start_offsets: Offsets
    topic_ids: Mapping[str, str]
    gaps: tuple[Gap, ...]
    fewer: EarlierBuckets | None
    sink: Sink
    pace: Pace
    quarantine: Quarantine
    turns: UnreadTurns
    stalls: StallNotice

    def start(self) -> StreamingQuery:
        """Start a query that goes on where the last query has ended.

        Raises:
            JobFailedError: Spark refuses the checkpoint or the query, or cannot run our part of the source.
        """
        self.pace.start()
        query_log.unmute(self.spark)
        source = KafkaSource(
            self.options.bootstrap,
            tuple(self.partitions),
            self.pace.records,
            self.start_offsets,
            record_needs(self.pipeline),
            self.topic_ids,
            self.gaps,
        )
        at = self._checkpoint
        location = str(at) if isinstance(at, Path) else at.for_hadoop
        try:
            frame = plan.build(
                self.spark,
                self.pipeline,
                source,
                dict(self.partitions),
                self.relations,
                full_batch=self.pace.full_batch(sum(self.partitions.values())),
                files=self.sink.files,
                fewer=self.fewer,
            )
            writer = frame.writeStream.queryName(self.pipeline.name)
            writer = writer.foreachBatch(shortly_interrupted(self.sink)).trigger(**self.pace.trigger)
            return writer.option("checkpointLocation", location).start()
        except PySparkException as error:
            raise JobFailedError(self._with_batch(str(error))) from error

    def run(self, query: StreamingQuery, pulse: Pulse, stop: threading.Event) -> None:
        """Watch a query, and the queries that follow it, until the last one ends or `stop` is set.

        Args:
            query: the first query.
            pulse: sends pulses and turns.
            stop: set when the job must stop.

        Raises:
            JobFailedError: a query has failed.
            QuarantineError: too many records were dead letters.
        """
        while self._watch(query, pulse, stop):
            query = self.start()

    def finish(self, pulse: Pulse, stop: threading.Event) -> None:
        """Run further queries until no row waits that was read before this call.

        A query that ends by itself does not read a pulse that is sent after its start, so each pulse needs a
        query of its own.

        Args:
            pulse: sends pulses.
            stop: set when the job must stop.

        Raises:
            JobFailedError: a query has failed.
            QuarantineError: too many records were dead letters.
        """
        read_until = time.time()
        while pulse.waits_for(read_until) and not stop.wait(max(0.0, (pulse.due or 0.0) - time.time())):
            pulse.beat()
            self.run(self.start(), pulse, stop)

    def _watch(self, query: StreamingQuery, pulse: Pulse, stop: threading.Event) -> bool:
        """Watch one query until it ends. Return true if another query must follow it."""
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
            if (failure := query.exception()) is not None and not self._is_refusal(str(failure)):
                raise JobFailedError(self._with_batch(str(failure)))
        except StreamingQueryException as error:
            if not self._is_refusal(str(error)):
                raise JobFailedError(self._with_batch(str(error))) from error
        except (Py4JNetworkError, ConnectionError) as error:
            raise JobFailedError(
                self._with_batch(f"the driver's JVM has ended; its log says why ({error})")
            ) from error
        self.quarantine.require_room()
        return self.pace.is_new and not stop.is_set()

    def _is_woken(self, query: StreamingQuery, pulse: Pulse) -> bool:
        """Return whether the query waits and somebody has turned a knob, which a new query reads at once."""
        if not self.pace.waits_long or query.status["message"] not in _WAITS:
            return False
        return self.turns.beyond(pulse.read)

    def _is_refusal(self, failure: str) -> bool:
        """Return whether a failure is the sink's refusal of a batch, for a new pace or a full quarantine."""
        refusals = {NewPaceError: self.pace.is_new, QuarantineError: self.quarantine.is_full}
        return any(is_so and error.__name__ in failure for error, is_so in refusals.items())

    @property
    def _checkpoint(self) -> Location:
        return self.options.checkpoint.resolve() / "spark"

    def _with_batch(self, failure: str) -> str:
        return failure_of(failure, self.pipeline.name, self._checkpoint, self.options.bootstrap)
