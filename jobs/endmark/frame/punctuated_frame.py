"""A streaming DataFrame that carries its punctuations from its source through every step to a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from endmark.driver.topics import partition_counts
from endmark.frame.kafka import parsed_topic
from endmark.frame.sinks import directories, start
from endmark.frame.steps import FrameSteps
from endmark.frame.tables import FrameTables, require_storable
from endmark.frame.topic import FrameTopic, wire_columns
from endmark.spark.publish import OutputTopic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from endmark.kafka.cluster import ClusterOrAddress


class PunctuatedFrame(FrameSteps):
    """A streaming frame with punctuations: how it is read from Kafka, its steps, and its sinks.

    Args:
        frame: any streaming DataFrame whose columns have different names.
        punctuations: the name of its string column of punctuations. A punctuation stands behind all rows of
            its batch.

    Raises:
        ConfigError: the frame has no such column of strings, or two columns of the same name.
    """

    @classmethod
    def read_kafka(
        cls,
        spark: SparkSession,
        bootstrap_servers: ClusterOrAddress,
        topic: str,
        columns: Mapping[str, str],
        *,
        partitioned_by: Sequence[str] = (),
        punctuations: str = "punctuations",
        max_records_per_batch: int = 500_000,
        extra: Literal["dead_letter", "ignore"] = "dead_letter",
    ) -> Self:
        """Read a topic in the wire format's JSON from its beginning. An unreadable record is a dead letter.

        A punctuation holds for its own partition. If the topic has several partitions, a punctuation passes
        only if it names a value of each column of `partitioned_by`. If that is a single column, it may name a
        list of values.

        Args:
            spark: the session.
            bootstrap_servers: addresses of brokers, as `host:port`, separated by commas.
            topic: the topic, which must exist.
            columns: types by name, as a pipeline file has them, such as `decimal(18,2)`. A column of a type
                with a `?` may be missing or null.
            partitioned_by: the columns whose values decide the partition of a row.
            punctuations: the name of the frame's column of punctuations.
            max_records_per_batch: the most records that one batch reads from all partitions.
            extra: whether a record with members that are not declared is a dead letter, or a row without
                them (`ignore`).

        Raises:
            ConfigError: the topic has several partitions but `partitioned_by` is empty or nullable, a type
                does not exist, or `extra` is neither word.
            MissingPartError: the broker does not answer, or has no such topic.
        """
        frame = parsed_topic(
            spark,
            bootstrap_servers,
            topic,
            columns,
            partitioned_by,
            punctuations,
            max_records_per_batch,
            extra,
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
            path: the directory of the table, which is made if it does not exist. Each directory may be a
                path, or a URI of the scheme `file`.
            checkpoint: a directory of the query's own, to which the tables belong.
            punctuations: the directory of a table of punctuations; `None` keeps none.
            dead_letters: the directory of a table of dead letters; `None` keeps none.
            violations: the directory of a table of violations; `None` keeps none.
            trigger_seconds: the least time from the start of one batch to the start of the next.
            available_now: whether the query ends when it has read all that was there at its start.

        Raises:
            ConfigError: a table was not written by this checkpoint or cannot hold a column, a URI has another
                scheme, or two arguments name one directory.
        """
        require_storable(self._frame.schema)
        others = directories(
            path=path,
            checkpoint=checkpoint,
            punctuations=punctuations,
            dead_letters=dead_letters,
            violations=violations,
        )
        rows, kept = others.pop("path"), others.pop("checkpoint")

        def tables(app_id: str) -> FrameTables:
            return FrameTables(self._punctuations, self._renaming, rows, self._rows, others, app_id, kept)

        return start(self._frame, self._operators, tables, kept, trigger_seconds, available_now=available_now)

    def write_kafka(
        self,
        bootstrap_servers: ClusterOrAddress,
        topic: str,
        checkpoint: Path | str,
        *,
        key: Sequence[str] = (),
        trigger_seconds: float = 1.0,
        available_now: bool = False,
    ) -> StreamingQuery:
        """Start a query that publishes rows and punctuations to a topic, at least once, in the wire format.

        All rows of a batch are acknowledged before its first punctuation is sent. A punctuation that names a
        value of each `key` column, and restricts no other, goes to the partition of its rows. Any other
        punctuation goes to all partitions. Dead letters and violations are left out. The headers of a record
        name its batch, as in a job's output topic, so that a reader can recognise a repeated batch.

        Args:
            bootstrap_servers: addresses of brokers, as `host:port`, separated by commas.
            topic: the topic, which must exist.
            checkpoint: a directory of the query's own, as a path or a URI of the scheme `file`.
            key: the columns by which records are keyed.
            trigger_seconds: the least time from the start of one batch to the start of the next.
            available_now: whether the query ends when it has read all that was there at its start.

        Raises:
            ConfigError: the wire format has no spelling for a column, the frame has no such key, or the URI
                has another scheme.
            MissingPartError: the broker does not answer, or has no such topic.
        """
        kept = directories(checkpoint=checkpoint)["checkpoint"]
        columns = wire_columns(self._rows, key)
        partitions = partition_counts(bootstrap_servers, [topic])[topic]
        members = {name: [name] for name in key}

        def publish(app_id: str) -> FrameTopic:
            output = OutputTopic(columns, members, topic, partitions, bootstrap_servers, app_id)
            return FrameTopic(self._punctuations, self._renaming, key, output)

        return start(
            self._frame, self._operators, publish, kept, trigger_seconds, available_now=available_now
        )
