"""The plan of a job's query: one source, its stages in a line, no branches."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol

from endmark.engine import channels
from endmark.engine.bucket.lookup_levels import lookup_positions
from endmark.engine.bucket.lookup_plan import lookup_plan, unpaged_lookups
from endmark.engine.channels import Buckets
from endmark.engine.earlier_buckets import StageBuckets
from endmark.engine.ingest.control_rows import ControlPlan
from endmark.engine.ingest.ingest import Ingest
from endmark.engine.stages import group_stages, stage_plans
from endmark.engine.streams import stream_plans
from endmark.relation.outage import warn
from endmark.relation.sql import SqlRelation
from endmark.spark.processor import StageProcessor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from endmark.engine.bucket.lookup_plan import LookupPlan
    from endmark.engine.bucket.plan import BucketPlan
    from endmark.engine.delta_files import OutputFiles
    from endmark.engine.derived_stream import DerivedStream
    from endmark.engine.earlier_buckets import EarlierBuckets
    from endmark.engine.groups.stage import GroupStage
    from endmark.engine.stages import StagePlan
    from endmark.engine.streams import StreamPlan
    from endmark.pipeline import Lookup, Pipeline
    from endmark.relation.contract import PageDirectory
    from endmark.spark.kafka_source import Through

_LABELS_TRIED = 16  # per partition; with 200 partitions, the odds that one gets no label are 1 in 50,000
_HASH_SEED = 42  # the seed of Spark's hash partitioning


class Source(Protocol):
    """Where a query's records come from."""

    def stream(self, spark: SparkSession, through: Through, columns: str) -> DataFrame:
        """Return the streaming frame of what a function makes of the records.

        All records that a batch reads of a partition come to one call of the function, in order.

        Args:
            spark: the session.
            through: takes batches of `endmark.kafka.ranges.RECORDS`, each of one partition and not empty, and
                returns others. It is pickled.
            columns: the columns of these, as Spark's DDL.
        """
        ...


@dataclass(frozen=True)
class Relations:
    """How tasks find the relations.

    Args:
        directories: the page directory of each relation, by the relation's name.
        cache_name: the name under which processes of tasks keep caches of relations, as in `LookupPlan`.
    """

    directories: Mapping[str, PageDirectory]
    cache_name: str


def bucket_labels(spark: SparkSession, count: int) -> Buckets:
    """Return a label for each of `count` shuffle partitions that Spark's hash puts into that partition."""
    # Labels 0 and 1 would share one of two partitions, and the other core would be idle.
    tried = range(_LABELS_TRIED * count)
    # We call Spark's function, since a query for the hash would be the session's first and take a second.
    java: Any = spark.sparkContext._jvm
    # This is the method of an object: py4j may miss a static method if another method has the same name.
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
    source: Source,
    partitions: dict[str, int],
    relations: Relations,
    full_batch: int | None = None,
    files: OutputFiles | None = None,
    fewer: EarlierBuckets | None = None,
) -> DataFrame:
    """Return the streaming frame of (channel, blob) that the sink takes apart.

    Args:
        spark: the session; its number of shuffle partitions is the number of buckets.
        pipeline: the pipeline.
        source: the source of the records.
        partitions: the number of partitions of each topic, by name.
        relations: how tasks find the relations.
        full_batch: the records of a full batch, as in `BucketPlan`; `None` if no batch counts as full.
        files: the tables that tasks write files for. `None`: all rows leave the last stage as blobs.
        fewer: the buckets that there were before; `None` if their number has not changed.
    """
    buckets = bucket_labels(spark, int(spark.conf.get("spark.sql.shuffle.partitions") or 2))
    streams, positions = stream_plans(pipeline, partitions), lookup_positions(pipeline)

    def looking(declared: Lookup, stream: StreamPlan) -> LookupPlan:
        reader = SqlRelation(pipeline.relations[declared.relation], warn)
        position, directory = positions[declared.relation], relations.directories[declared.relation]
        name = relations.cache_name
        return lookup_plan(declared, position, stream, len(buckets), reader, directory, reader.batch, name)

    ingest = Ingest(
        streams, buckets, ControlPlan.of(pipeline, unpaged_lookups(pipeline, relations.directories))
    )
    packed = source.stream(spark, ingest.__call__, channels.PACKED_DDL)
    groups = group_stages(pipeline, buckets, buckets)
    stages = stage_plans(pipeline, streams, looking, buckets, groups, full_batch)
    *earlier, last = processors(stages, groups, files, buckets, fewer)
    for processor in earlier:
        packed = _stage(packed, processor, channels.PACKED_DDL)
    return _stage(packed, last, channels.UNPACKED_DDL)


def processors(
    stages: Sequence[StagePlan],
    groups: Sequence[GroupStage],
    files: OutputFiles | None,
    buckets: Buckets,
    fewer: EarlierBuckets | None = None,
) -> list[StageProcessor]:
    """Return the operators of a query, one for each stage, in order.

    Args:
        stages: the plans of the stages with a join or lookups.
        groups: the plans of the stages of groups behind them.
        files: the tables that tasks write files for, as in `build`.
        buckets: the buckets of each stage with a join or lookups.
        fewer: the buckets that there were before, as in `build`.
    """
    plans: list[tuple[BucketPlan | GroupStage, DerivedStream | GroupStage | None, Buckets]]
    plans = [(stage.bucket, stage.onward, buckets) for stage in stages]
    plans += [(each, onward, each.buckets) for each, onward in zip_longest(groups, groups[1:])]
    found = []
    for number, (plan, onward, own) in enumerate(plans):
        written = files
        if files is not None and onward is not None:
            # Stages of groups stand behind all others, and `number + 1` is the next stage.
            behind_next = groups[max(0, number + 2 - len(stages)) :]
            written = files.before_last({each.takes for stage in behind_next for each in stage.groups})
        found.append(StageProcessor(plan, written, StageBuckets(number, own, fewer), onward))
    return found


def _stage(packed: DataFrame, processor: StageProcessor, columns: str) -> DataFrame:
    """Return the output of a stage: one shuffle of packed rows, and one stateful operator."""
    return packed.groupBy("bucket").transformWithState(processor, columns, "append", "none")
