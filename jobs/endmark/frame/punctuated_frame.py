"""A streaming DataFrame that carries its punctuations from its source through every step to a sink."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from endmark.driver.topics import partition_counts
from endmark.frame.kafka import parsed_topic
from endmark.frame.sinks import DEAD_LETTERS, PUNCTUATIONS, VIOLATIONS, start
from endmark.frame.steps import FrameSteps
from endmark.frame.tables import FrameTables
from endmark.frame.topic import FrameTopic, wire_columns
from endmark.spark.publish import OutputTopic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class PunctuatedFrame(FrameSteps):
    """A frame of any source of Spark's, or of a topic, its steps, and where it goes.

    Args:
        frame: has no two columns of one name.
        punctuations: its string column of punctuations, which stand behind all rows of their batch.

    Raises:
        ConfigError: a column is not what it must be.
    """

    @classmethod
    def read_kafka(
        cls,
        spark: SparkSession,
        bootstrap_servers: str,
        topic: str,
        columns: Mapping[str, str],
        *,
        partitioned_by: Sequence[str] = (),
        punctuations: str = "punctuations",
        max_records_per_batch: int = 500_000,
    ) -> Self:
        """A topic in the wire format's JSON, from its beginning. A record that is neither row nor punctuation
        is a dead letter.

        A punctuation speaks for its own partition. So of a topic with several, only those pass that name a
        value of each column of `partitioned_by`, or a list of values if that is one column.

        Args:
            spark: the session, with the jars of Spark's Kafka source.
            bootstrap_servers: addresses of brokers, as `host:port`, separated by commas.
            topic: the topic, which exists.
            columns: types by name, as a pipeline file has them, such as `decimal(18,2)`.
            partitioned_by: the columns whose values say in which partition a row is.
            punctuations: the name to give to the column of punctuations.
            max_records_per_batch: the most records that one batch reads from all partitions.

        Raises:
            ConfigError: there are several partitions and nothing says what is where, or a type is none.
            MissingPartError: the broker does not answer, or has no such topic.
        """
        frame = parsed_topic(
            spark, bootstrap_servers, topic, columns, partitioned_by, punctuations, max_records_per_batch
        )
        return cls(frame, punctuations)

    def write_delta(
        self,
        path: Path | str,
        checkpoint: Path | str,
        *,
        punctuations: Path | str | None = None,
        dead_letters: Path | str | None = None,
        violations: Path | str | None = None,
        trigger_seconds: float = 1.0,
        available_now: bool = False,
    ) -> StreamingQuery:
        """Start a query that appends rows to a Delta table, exactly once.

        Args:
            path: of the table, which is made if it is not there.
            checkpoint: directory of the query's own; the tables belong to it.
            punctuations, dead_letters, violations: tables for these, which are not kept otherwise.
            trigger_seconds: least time from the start of one batch to the next.
            available_now: end with what is there at the start.

        Raises:
            ConfigError: a table is not the one that the checkpoint has written.
        """
        tables_asked = {PUNCTUATIONS: punctuations, DEAD_LETTERS: dead_letters, VIOLATIONS: violations}
        paths = {name: Path(where) for name, where in tables_asked.items() if where is not None}

        def tables(app_id: str) -> FrameTables:
            rows = Path(path), self._rows
            return FrameTables(self._punctuations, self._renaming, *rows, paths, app_id, Path(checkpoint))

        return start(self._frame, tables, Path(checkpoint), trigger_seconds, available_now=available_now)

    def write_kafka(
        self,
        bootstrap_servers: str,
        topic: str,
        checkpoint: Path | str,
        *,
        key: Sequence[str] = (),
        trigger_seconds: float = 1.0,
        available_now: bool = False,
    ) -> StreamingQuery:
        """Start a query that publishes rows and punctuations to a topic, at least once, in the wire format.

        All rows of a batch are there before its first punctuation. One that names a value of each `key`
        column, and nothing else, goes to the partition of its rows, any other one to all. Dead letters and
        violations are left out. Headers tell repeats apart, as those of a job's output topic do.

        Args:
            bootstrap_servers: addresses of brokers, as `host:port`, separated by commas.
            topic: the topic, which exists.
            key: the columns by which records are keyed.
            checkpoint, trigger_seconds, available_now: as `write_delta` has them.

        Raises:
            ConfigError: a column has no spelling in the wire format, or there is no such key.
            MissingPartError: the broker does not answer, or has no such topic.
        """
        columns = wire_columns(self._rows, key)
        partitions = partition_counts(bootstrap_servers, [topic])[topic]
        members = {name: [name] for name in key}

        def publish(app_id: str) -> FrameTopic:
            output = OutputTopic(columns, members, topic, partitions, bootstrap_servers, app_id)
            return FrameTopic(self._punctuations, self._renaming, key, output)

        return start(self._frame, publish, Path(checkpoint), trigger_seconds, available_now=available_now)
