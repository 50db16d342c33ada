"""Reads a Kafka topic as a frame. Records are in a pipeline's JSON, and a bad one becomes a control row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from endmark.driver.topics import partition_counts, require_counted
from endmark.engine.frame_rejects import dead_letter
from endmark.engine.streams import ddl
from endmark.errors import ConfigError
from endmark.punctuation import json_text
from endmark.punctuation.pattern import Equals, OneOf
from endmark.punctuation.wire_json import encode_patterns
from endmark.spark.kafka_source import KafkaSource
from endmark.types import ColumnType
from endmark.wire.json.records import JsonParser
from endmark.wire.record_spec import RecordSpec
from endmark.wire.unavailable_values import without_unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from endmark.kafka.cluster import ClusterOrAddress
    from endmark.punctuation.punctuation import Punctuation
    from endmark.wire.json.records import Parsed


@dataclass(frozen=True)
class ParseStage:
    """A function for `mapInArrow` that turns Kafka's columns into the declared ones and that of punctuations.

    A punctuation holds for its own partition. If the topic has several partitions, a punctuation passes only
    if it names a value of each column by which the topic is partitioned.

    Args:
        columns: all columns of a record; a row has these, and those that are not nullable have a value.
        punctuations: the name of the column of punctuations.
        partitioned_by: the columns by which the topic is partitioned; may be empty if it has one partition.
        partitions: the number of partitions when the query was made.
        ignoring: whether a record may have other members, which are left out.
    """

    columns: dict[str, ColumnType]
    punctuations: str
    partitioned_by: tuple[str, ...]
    partitions: int
    ignoring: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The declared columns, then the column of punctuations."""
        fields = [(name, kind.arrow) for name, kind in self.columns.items()]
        return pa.schema([*fields, (self.punctuations, pa.string())])

    def check(self, topic: str) -> None:
        """Check that the punctuations of a topic can be used.

        Raises:
            ConfigError: `partitioned_by` names a column that is not declared or nullable, or is empty
                although the topic has several partitions.
        """
        if unknown := [name for name in self.partitioned_by if name not in self.columns]:
            raise ConfigError(f"partitioned_by: no column {', '.join(unknown)} is declared; name others")
        if nullable := [name for name in self.partitioned_by if self.columns[name].nullable]:
            raise ConfigError(
                f"partitioned_by: column {nullable[0]} is {self.columns[nullable[0]]}, but null has no "
                f"partition; declare it {self.columns[nullable[0]].required}"
            )
        if self.partitions > 1 and not self.partitioned_by:
            raise ConfigError(
                f"topic {topic} has {self.partitions} partitions, and a punctuation speaks for its own; say "
                "by which columns rows are shared out among them: partitioned_by"
            )

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parser: JsonParser | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            topic = batch.column("topic")[0].as_py()
            require_counted(topic, pc.unique(batch.column("partition")).to_pylist(), self.partitions)
            parser = parser or self._parser(topic)
            values = batch.column("value")
            # Tombstones say nothing. A batch without any is not copied.
            records = batch.filter(values.is_valid()) if values.null_count else batch
            values = records.column("value")
            parsed = without_unavailable(parser.parse(values), values)
            rows = parsed.rows
            yield rows.append_column(self.punctuations, pa.nulls(rows.num_rows, pa.string()))
            texts = pa.concat_arrays(
                [
                    json_text.named(
                        dict(zip(parsed.closed_keys.schema.names, parsed.closed_keys.columns, strict=True))
                    ),
                    pa.array(
                        [self._written(each) for _, each in parsed.promises if self._passes(each)],
                        pa.string(),
                    ),
                    pa.array(list(_letters(records, parsed)), pa.string()),
                ]
            )
            nothing = [pa.nulls(len(texts), field.type) for field in rows.schema]
            yield pa.record_batch([*nothing, texts], schema=self.schema)

    def _parser(self, topic: str) -> JsonParser:
        key = self.partitioned_by or tuple(self.columns)[:1]
        return JsonParser(
            RecordSpec(self.columns, list(self.columns), topic, key=key, ignoring=self.ignoring)
        )

    def _passes(self, promise: Punctuation) -> bool:
        if self.partitions == 1:
            return True
        patterns = dict(promise.patterns)
        one = len(self.partitioned_by) == 1
        return all(
            isinstance(patterns.get(name), Equals) or (one and isinstance(patterns.get(name), OneOf))
            for name in self.partitioned_by
        )

    def _written(self, promise: Punctuation) -> str:
        domains = {name: kind.domain for name, kind in self.columns.items()}
        return encode_patterns(promise, domains)


def parsed_topic(
    spark: SparkSession,
    bootstrap: ClusterOrAddress,
    topic: str,
    columns: Mapping[str, str],
    partitioned_by: Sequence[str],
    punctuations: str,
    max_records_per_batch: int,
    extra: str,
) -> DataFrame:
    """Return the frame of a topic.

    Args:
        spark: the session.
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        topic: the topic.
        columns: types by column, as a pipeline file has them.
        partitioned_by: the columns by which the topic is partitioned.
        punctuations: the name of the column of punctuations.
        max_records_per_batch: the most records of a batch.
        extra: `ignore` leaves out members that are not declared; `dead_letter` takes no such record.

    Raises:
        ConfigError: a type does not exist, `extra` is neither word, or the punctuations of the topic cannot
            be used.
        MissingPartError: the broker does not answer, or has no such topic.
    """
    try:
        kinds = {name: ColumnType.parse(text) for name, text in columns.items()}
    except ValueError as error:
        raise ConfigError(f"columns: {error}") from error
    if extra not in ("dead_letter", "ignore"):
        raise ConfigError(f"extra: {extra!r} is not one of dead_letter, ignore")
    partitions = partition_counts(bootstrap, [topic])
    stage = ParseStage(
        kinds, punctuations, tuple(partitioned_by), partitions[topic], ignoring=extra == "ignore"
    )
    stage.check(topic)
    return KafkaSource(bootstrap, (topic,), max_records_per_batch).stream(
        spark, stage.__call__, ddl(stage.schema)
    )


def _letters(batch: pa.RecordBatch, parsed: Parsed) -> Iterator[str]:
    for rejection in parsed.rejections:
        at = {name: batch.column(name)[rejection.at].as_py() for name in ("topic", "partition", "offset")}
        yield dead_letter(at, rejection.reason, rejection.error, rejection.value)
