"""The plan: one source, one shuffle, one stateful operator, no branches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from endmark.engine import channels
from endmark.engine.bucket.lookup_plan import lookup_plan
from endmark.engine.bucket.plan import BucketPlan
from endmark.engine.channels import Buckets
from endmark.engine.ingest.control_rows import ControlPlan
from endmark.engine.ingest.ingest import Ingest
from endmark.engine.streams import stream_plans
from endmark.relation.outage import warn
from endmark.relation.sql import SqlRelation
from endmark.spark.processor import BucketProcessor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from endmark.pipeline import Pipeline
    from endmark.relation.contract import PageDirectory

_LABELS_TRIED = 16  # per partition; at 200 partitions one of them misses out with odds of 1 in 50,000
_HASH_SEED = 42  # of Spark's hash partitioning
# Behind each poll Spark asks for a partition's ends. By the same connection, whose requests a broker answers
# in turn, the consumer has asked for more by then, and at a topic's end that waits for half a second: a batch
# that read all there was took 2.8 s, of eight partitions on two cores, and takes 0.6. Nor is a poll for each
# 500 records too few: batches of 150,000 read them in half the time.
PROMPT = {"kafka.fetch.max.wait.ms": "1", "kafka.max.poll.records": "50000"}


@dataclass(frozen=True)
class KafkaSource:
    """The way in which Kafka is read: broker, partitions by topic, and the most records of a batch."""

    bootstrap: str
    partitions: dict[str, int]
    max_records_per_batch: int


def bucket_labels(spark: SparkSession, count: int) -> Buckets:
    """One label for each of `count` shuffle partitions, by Spark's own hash."""
    # Labels 0 and 1 share one of two partitions, so counting up would leave a core idle.
    tried = range(_LABELS_TRIED * count)
    # The function itself, since a query for it would be the session's first, and take a second.
    java: Any = spark.sparkContext._jvm
    # A method of an object: py4j may not find a static one that shares its name with one that is not.
    hashed = java.org.apache.spark.unsafe.hash.Murmur3_x86_32(_HASH_SEED).hashInt
    labels: dict[int, int] = {}
    for label in tried:
        labels.setdefault(hashed(label) % count, label)
        if len(labels) == count:
            return Buckets(tuple(labels[partition] for partition in range(count)))
    raise AssertionError(f"no label found for some of {count} shuffle partitions")


def build(
    spark: SparkSession,
    pipeline: Pipeline,
    records: DataFrame,
    partitions: dict[str, int],
    directories: Mapping[str, PageDirectory],
    cache_name: str,
    full_batch: int | None = None,
) -> DataFrame:
    """The streaming frame of (channel, blob) that the sink takes apart.

    Args:
        spark: the session; its number of shuffle partitions is the number of buckets.
        pipeline: the pipeline.
        records: as `kafka_records` gives them; one task has all that a batch reads of a partition, in order.
        partitions: the number of partitions of each topic, by name.
        directories: the page directory of each relation, by the relation's name.
        cache_name: as in `LookupPlan`.
        full_batch: as in `BucketPlan`.
    """
    buckets = bucket_labels(spark, int(spark.conf.get("spark.sql.shuffle.partitions") or 2))
    streams = stream_plans(pipeline, partitions)
    lookups = []
    for declared in pipeline.lookups:
        reader, stream = SqlRelation(pipeline.relations[declared.relation], warn), streams[declared.stream]
        directory = directories[declared.relation]
        first = declared is pipeline.lookups_of(declared.stream)[0]
        lookups.append(
            lookup_plan(
                declared, stream, len(buckets), reader, directory, reader.batch, cache_name, first=first
            )
        )
    bucket = BucketPlan.of(pipeline, streams, lookups, len(buckets), full_batch)
    ingest = Ingest(streams, buckets, ControlPlan.of(pipeline))
    packed = records.mapInArrow(ingest.__call__, channels.PACKED_DDL)
    processor = BucketProcessor(bucket)
    return packed.groupBy("bucket").transformWithState(processor, channels.UNPACKED_DDL, "append", "none")


def kafka_records(spark: SparkSession, source: KafkaSource) -> DataFrame:
    """The records of all topics, as they come: topic, partition, offset, timestamp and value."""
    options = {
        "kafka.bootstrap.servers": source.bootstrap,
        "subscribe": ",".join(source.partitions),
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(source.max_records_per_batch),
        **PROMPT,
        # A broker that does not answer is asked twice and stops the query within a minute. Kafka's own
        # defaults and Spark's three attempts would make it four.
        "fetchOffset.numRetries": "2",
        "kafka.default.api.timeout.ms": "15000",
        "kafka.request.timeout.ms": "10000",
        "kafkaConsumer.pollTimeoutMs": "30000",
    }
    return (
        spark.readStream.format("kafka")
        .options(**options)
        .load()
        .select("topic", "partition", "offset", "timestamp", "value")
    )
