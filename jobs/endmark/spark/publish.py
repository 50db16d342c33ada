"""Publishes rows of a step and output punctuations to a Kafka topic, in the wire format of a stream.

The key of a record is the pipeline's key. So the results of a key and the punctuation that names it are in
one partition. A pattern goes to every partition. The broker acknowledges all results of a batch before the
first punctuation of the batch is sent. So no result follows a punctuation that matches it. A repeated batch
is the exception, since Kafka gets each batch at least once. The headers of a record name its batch.

A result is longer than the records that it is made of. So a topic may refuse it, and would refuse it at each
start of the job. Such records are left out, and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from endmark.domain import Domain
from endmark.driver.topics import longest_record, partition_counts
from endmark.engine.streams import arrow_schema, ddl, spark_type
from endmark.kafka.cluster import cluster_of
from endmark.pipeline.publish import BATCH_HEADER, CHECKPOINT_HEADER
from endmark.pipeline.tables import is_group_role, is_step_role, step_of
from endmark.wire.json.records import MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from endmark.kafka.cluster import ClusterOrAddress
    from endmark.pipeline import Pipeline
    from endmark.types import ColumnType

_RECORD_DDL = "key string, value string, partition int"
_SPELLING = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'",
    "timeZone": "UTC",
    "ignoreNullFields": "false",
}
_LONGEST = 32 << 20  # bytes that the producer has for all records
_PRODUCER = {
    "kafka.linger.ms": "5",
    # A broker that takes no records stops the query after this time; Kafka's default is two minutes.
    "kafka.max.block.ms": "30000",
    "kafka.delivery.timeout.ms": "30000",
    "kafka.request.timeout.ms": "10000",
    # The topic says how long a record may be. By default the producer itself would refuse more than 1 MiB.
    "kafka.max.request.size": str(_LONGEST),
}
_USUAL_LONGEST = 1_048_588  # `max.message.bytes` of a topic that nobody has changed
_AROUND_RECORD = 200  # more bytes than Kafka's own around the key, the value and our two headers


class OutputTopic:
    """A topic that rows and punctuations are published to.

    Attributes:
        name: the name of the topic.

    Args:
        columns: the columns of the rows.
        key: for each member of a record's key, the columns that may hold it; the first one that is not null
            counts. Without members no record has a key.
        topic: the name of the topic, which exists.
        partitions: the topic's number of partitions; each of them gets every pattern.
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        app_id: the id of the checkpoint, since each checkpoint counts its own batches.
        say: called with a line about records that are too long for the topic, and are left out. Without it,
            such a record fails the batch.
    """

    def __init__(
        self,
        columns: Mapping[str, ColumnType],
        key: Mapping[str, Sequence[str]],
        topic: str,
        partitions: int,
        bootstrap: ClusterOrAddress,
        app_id: str,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._columns = columns
        self._key = key
        self._kinds = {name: self._columns[sides[0]] for name, sides in self._key.items()}
        self._partitions = partitions
        self._app_id = app_id
        self._say = say
        self.name, self._bootstrap = topic, bootstrap
        self._options = {"topic": topic} | cluster_of(bootstrap).spark() | _PRODUCER

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        role: str,
        topic: str,
        partitions: int,
        bootstrap: ClusterOrAddress,
        app_id: str,
        say: Callable[[str], None] | None = None,
    ) -> Self:
        """Return an output topic of a pipeline. Its records have the key of their stage or groups.

        Args:
            pipeline: the pipeline.
            role: the kind of the rows.
            topic: the name of the topic, which exists.
            partitions: the topic's number of partitions.
            bootstrap: the Kafka cluster, or the addresses of its brokers.
            app_id: the id of the checkpoint; with the number of a batch, readers recognise a repeat by it.
            say: as for the constructor.
        """
        stage, columns = pipeline.last_stage, pipeline.outputs.topic_columns(role)
        if is_group_role(role):
            by = {name: [name] for name in pipeline.groups_of(role).key}
            return cls(columns, by, topic, partitions, bootstrap, app_id, say)
        if is_step_role(role):
            stage = pipeline.stage_with(step_of(role))
        sources = zip(*(stage.key_columns(given) for given in stage.inputs), strict=True)
        key = {
            name: [column for column in of if column in columns]
            for name, of in zip(stage.key, sources, strict=True)
        }
        # A later row step may derive the key of the join. Then these records have none.
        return cls(columns, key if all(key.values()) else {}, topic, partitions, bootstrap, app_id, say)

    @property
    def ddl(self) -> str:
        """The columns of the rows, as Spark's DDL."""
        return ddl(arrow_schema(dict(self._columns)))

    def publish(
        self, results: DataFrame | None, keys: DataFrame | None, patterns: Sequence[str], batch_id: int
    ) -> int:
        """Send the results and then the punctuations of a batch; return the number of records left out.

        Args:
            results: the rows; `None` if there are none.
            keys: a frame with a text column `punctuation`, which has a row for each closed key; `None` if no
                punctuation is sent at all.
            patterns: JSON texts of all other punctuations; each is sent to every partition.
            batch_id: the number of the batch, by which readers recognise a repeat.
        """
        left_out = 0
        if results is not None:
            left_out += self._send(self._results(results), batch_id)
        if keys is not None:
            left_out += self._send(self._named(keys).union(self._everywhere(keys, patterns)), batch_id)
        return left_out

    def _results(self, rows: DataFrame) -> DataFrame:
        key = {name: F.coalesce(*map(_column, sides)) for name, sides in self._key.items()}
        row = {name: _column(name) for name in self._columns}
        return _records(rows, _object(key, self._kinds), _object(row, self._columns))

    def _named(self, keys: DataFrame) -> DataFrame:
        def value(column: str, kind: ColumnType) -> Column:
            return F.get_json_object("punctuation", f"$['{column}'].equals").cast(spark_type(kind.arrow))

        key = {
            name: F.coalesce(*(value(column, self._kinds[name]) for column in sides))
            for name, sides in self._key.items()
        }
        marked = F.concat(F.lit(f'{{"{MARK}": '), F.col("punctuation"), F.lit("}"))
        return _records(keys, _object(key, self._kinds), marked)

    def _everywhere(self, keys: DataFrame, patterns: Sequence[str]) -> DataFrame:
        records = [
            (None, f'{{"{MARK}": {text}}}', partition)
            for text in patterns
            for partition in range(self._partitions)
        ]
        return keys.sparkSession.createDataFrame(records, _RECORD_DDL)

    def _send(self, records: DataFrame, batch_id: int) -> int:
        """Send records, and those that fit alone if some are too long; return the number of these."""
        try:
            self._write(records, batch_id)
        except (Py4JError, PySparkException) as error:
            if self._say is None or "RecordTooLargeException" not in str(error):
                raise
        else:
            return 0
        longest = min(longest_record(self._bootstrap, self.name) or _USUAL_LONGEST, _LONGEST)
        size = F.coalesce(F.octet_length("key"), F.lit(0)) + F.octet_length("value") + F.lit(_AROUND_RECORD)
        too_long = records.where(size > longest)
        left_out = too_long.count()
        if (first := too_long.select("key").first()) is not None:
            self._say(
                f"batch {batch_id}: leaves {left_out} records out of topic {self.name}, such as that of key "
                f"{first['key']}, since they are longer than its max.message.bytes, {longest}; raise it for "
                "later ones"
            )
        self._write(records.where(size <= longest), batch_id)
        return left_out

    def _write(self, records: DataFrame, batch_id: int) -> None:
        headers = F.array(_header(CHECKPOINT_HEADER, self._app_id), _header(BATCH_HEADER, str(batch_id)))
        writer = records.withColumn("headers", headers).write.format("kafka")
        writer.options(**self._options).save()


def output_topics(
    pipeline: Pipeline, bootstrap: ClusterOrAddress, app_id: str, say: Callable[[str], None]
) -> dict[str, OutputTopic]:
    """Return the topics that a pipeline publishes to, by the kind of the rows.

    Args:
        pipeline: the pipeline.
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        app_id: the id of the checkpoint; with the number of a batch, readers recognise a repeat by it.
        say: called with a line about records that are too long for their topic.

    Raises:
        MissingPartError: the broker does not answer, or does not have a topic.
    """
    topics = pipeline.outputs.topics
    counts = partition_counts(bootstrap, list(topics.values())) if topics else {}
    return {
        role: OutputTopic.of(pipeline, role, topic, counts[topic], bootstrap, app_id, say)
        for role, topic in topics.items()
    }


def _column(name: str) -> Column:
    """Return a column by its exact name, since PySpark takes a dot for a member of a struct."""
    return F.col(f"`{name.replace('`', '``')}`")


def _records(rows: DataFrame, key: Column, value: Column) -> DataFrame:
    """Return records for Kafka's sink, without a partition, which Kafka derives from the key."""
    return rows.select(key.alias("key"), value.alias("value"), F.lit(None).cast("int").alias("partition"))


def _object(members: Mapping[str, Column], kinds: Mapping[str, ColumnType]) -> Column:
    """Return a JSON object of these members in the wire format; null if there are no members."""
    if not members:
        return F.lit(None).cast("string")
    spelled = [_spelled(value, kinds[name]).alias(name) for name, value in members.items()]
    return F.to_json(F.struct(*spelled), _SPELLING)


def _spelled(value: Column, kind: ColumnType) -> Column:
    """Return values in the wire format, as far as `to_json` spells them otherwise."""
    if kind.domain is not Domain.DECIMAL:
        return value
    return value.cast("array<string>" if kind.many else "string")


def _header(name: str, value: str) -> Column:
    return F.struct(F.lit(name).alias("key"), F.lit(value).cast("binary").alias("value"))
