"""The queries of a run: one after the other from one checkpoint, and as a rule a single one."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from endmark.errors import EndmarkError
from endmark.spark import log, plan
from endmark.spark.pace import NewPaceError

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from endmark.ops.pulse import Pulse
    from endmark.ops.unread import UnreadTurns
    from endmark.pipeline import Pipeline
    from endmark.relation.contract import PageDirectory
    from endmark.spark.options import JobOptions
    from endmark.spark.pace import Pace
    from endmark.spark.sink import Sink

_POLL_SECONDS = 0.2
_WAITS = "Waiting for next trigger", "Waiting for data to arrive"  # as Spark says


class JobFailedError(EndmarkError):
    """The query stopped by itself; the text is its cause."""


@dataclass(frozen=True)
class Queries:
    """Args:
    spark, pipeline, options, sink: of the job.
    directories: as in `plan.build`.
    cache: likewise, `cache_name`.
    partitions: how many each topic has.
    pace: of which each query is started with what it is then.
    turns: that may end the wait for a batch.
    """

    spark: SparkSession
    pipeline: Pipeline
    options: JobOptions
    directories: Mapping[str, PageDirectory]
    cache: str
    partitions: Mapping[str, int]
    sink: Sink
    pace: Pace
    turns: UnreadTurns

    def start(self) -> StreamingQuery:
        """Start one that goes on where the last one has ended."""
        self.pace.start()
        log.speak_of_queries(self.spark)
        source = plan.Source(self.options.bootstrap, dict(self.partitions), self.pace.records)
        # Spark shares a batch out among partitions and rounds each share down. A pulse alone fills none.
        full = max(2, self.pace.records - sum(self.partitions.values()))
        frame = plan.build(
            self.spark,
            self.pipeline,
            plan.kafka_records(self.spark, source),
            dict(self.partitions),
            self.directories,
            self.cache,
            full_batch=None if self.options.available_now else full,
        )
        writer = frame.writeStream.queryName(self.pipeline.name).foreachBatch(self.sink)
        place = str(self.options.checkpoint.resolve() / "spark")
        return writer.option("checkpointLocation", place).trigger(**self.pace.trigger).start()

    def run(self, query: StreamingQuery, pulse: Pulse, stop: threading.Event) -> None:
        """See to a query, and those that follow at another pace, until it ends by itself or is to stop.

        Raises:
            JobFailedError: one has failed.
        """
        while self._is_followed(query, pulse, stop):
            query = self.start()

    def finish(self, pulse: Pulse, stop: threading.Event) -> None:
        """Run on until nothing waits that has been read so far, since a query that ends by itself reads no
        pulse that is sent after its start.

        Raises:
            JobFailedError: a query has failed.
        """
        read_until = time.time()
        while pulse.waits_for(read_until) and not stop.wait(max(0.0, (pulse.due or 0.0) - time.time())):
            pulse.beat()
            self.run(self.start(), pulse, stop)

    def _is_followed(self, query: StreamingQuery, pulse: Pulse, stop: threading.Event) -> bool:
        """See to one query; returns whether it has ended for another one."""
        try:
            while query.isActive and not stop.wait(_POLL_SECONDS):
                if self._is_woken(query, pulse):
                    self.pace.wake()
                if self.pace.is_new and not query.status["isTriggerActive"]:
                    break
                pulse.turn()
                if pulse.due is not None and not query.status["isDataAvailable"]:
                    pulse.beat()
            query.stop()
            if (failure := query.exception()) is not None and not self._is_due(str(failure)):
                raise JobFailedError(cause_of(str(failure), self.options.bootstrap))
        except StreamingQueryException as error:
            if not self._is_due(str(error)):
                raise JobFailedError(cause_of(str(error), self.options.bootstrap)) from error
        return self.pace.is_new and not stop.is_set()

    def _is_woken(self, query: StreamingQuery, pulse: Pulse) -> bool:
        """Whether a turn has come that would wait for long; a query that has just started reads it anyhow."""
        if not self.pace.waits_long or query.status["message"] not in _WAITS:
            return False
        return self.turns.beyond(pulse.read)

    def _is_due(self, failure: str) -> bool:
        """Whether a query has ended because the next one is to begin."""
        return self.pace.is_new and NewPaceError.__name__ in failure


def cause_of(failure: str, bootstrap: str) -> str:
    """The line of a Spark failure that says what went wrong: our own error if a task raised one."""
    ours = re.findall(r"^endmark\.\S+Error: (.*)$", failure, re.MULTILINE)
    if ours:
        return str(ours[-1])
    causes = re.findall(r"^(?:Caused by: )?((?:\w+\.)+\w*(?:Exception|Error): .*)$", failure, re.MULTILINE)
    cause = str(causes[-1]) if causes else failure.strip().splitlines()[0]
    if "org.apache.kafka" in cause:
        return f"Kafka at {bootstrap}: {cause}; when it is back, run the job again from its checkpoint"
    return cause
