"""The whole verification, step by step."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.storage import Location, delta_table
from endmark.verify.compare.partition_values import spell_partitions
from endmark.verify.compare.published_topics import check_topics, compare_topics, load_published
from endmark.verify.compare.tables import check_conservation, compare_tables, count_topics
from endmark.verify.expected_tables import expect
from endmark.verify.formats.registry import name_reasons
from endmark.verify.groups.closing import expect_groups
from endmark.verify.groups.rollup import expect_rollups
from endmark.verify.groups.running_groups import keep_latest
from endmark.verify.judge.classify import classify
from endmark.verify.judge.control import classify_control
from endmark.verify.judge.forgotten_keys import check_forgotten
from endmark.verify.promises.idle_partitions import note_idle_violations
from endmark.verify.promises.output_punctuations import expect_punctuations
from endmark.verify.read.added_columns import NOTHING_ADDED, AddedColumns
from endmark.verify.read.consume import Log, Range, require_held
from endmark.verify.read.relation import load_relations
from endmark.verify.read.written_tables import checkpoint_id, first_batches, load_tables, spell_records
from endmark.verify.report import SkippedOffsets, VerifyReport
from endmark.verify.session import Session

if TYPE_CHECKING:
    from endmark.kafka.cluster import ClusterOrAddress
    from endmark.kafka.gaps import Gap


def verify(
    pipeline: Pipeline,
    bootstrap: ClusterOrAddress,
    warehouse: Location,
    until: Mapping[str, Mapping[int, int]] | None = None,
    added: AddedColumns = NOTHING_ADDED,
    began: Mapping[str, Mapping[str, int]] | None = None,
    gaps: Sequence[Gap] = (),
    first_published: Mapping[str, int] = MappingProxyType({}),
) -> VerifyReport:
    """Recompute everything from Kafka and R, and compare it with the Delta tables and published topics.

    Args:
        pipeline: the pipeline.
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        warehouse: the directory of the Delta tables.
        until: by topic and partition, the first offset that does not count. Partitions that are not named are
            read to their end; `None` names none.
        added: the columns that are younger than the checkpoint of the tables.
        began: the offset of the first record that the job has read, by topic and partition; `None` does not
            ask whether Kafka holds all of them.
        gaps: the offsets that the job has skipped, in the order in which it has found them.
        first_published: the first batch of each published topic that is younger than the checkpoint.

    Raises:
        MissingPartError: the broker or the relation cannot be read.
        ConfigError: the warehouse has no table of the pipeline, a topic does not exist, `until` is not in
            Kafka, Kafka has dropped records that the job has read, or R does not fit its declaration.
    """
    _require_tables(pipeline, warehouse)
    topics = [stream.topic for stream in pipeline.streams.values()]
    # Only turns of `idle` in the control topic change tables.
    has_idle = any(stream.event_time.idle is not None for stream in pipeline.streams.values())
    needed = [*topics, pipeline.control_topic] if has_idle else topics
    published = list(pipeline.outputs.topics.values())
    # There is no control topic if no job was ever started, and a topic that does not exist has no rows.
    maybe, whole = [pipeline.control_topic, *published], [*pipeline.whole_topics, *published]
    with Log(bootstrap, topics, until, maybe=maybe, whole=whole) as log:
        read = {topic: began[topic] for topic in needed if topic in began} if began else {}
        require_held(log.ranges, read, gaps)
        report = verify_records(pipeline, log.ranges, log.batches(), warehouse, added, first_published)
    return report.model_copy(update={"gaps": [SkippedOffsets(**asdict(gap)) for gap in gaps]})


def _require_tables(pipeline: Pipeline, warehouse: Location) -> None:
    if not any(delta_table(warehouse / directory) for directory in pipeline.outputs.directories.values()):
        raise ConfigError(
            f"warehouse {warehouse} has no table of {pipeline.name}; name the one that its job writes"
        )


def verify_records(
    pipeline: Pipeline,
    ranges: Sequence[Range],
    batches: Iterable[pa.RecordBatch],
    warehouse: Location,
    added: AddedColumns = NOTHING_ADDED,
    first_published: Mapping[str, int] = MappingProxyType({}),
) -> VerifyReport:
    """Recompute everything from given records and R, and compare it with the tables and published topics.

    Args:
        pipeline: the pipeline.
        ranges: the offsets of the records, all of which are in `batches`.
        batches: the records, with the columns of `consume.SCHEMA`.
        warehouse: the directory of the Delta tables.
        added: the columns that are younger than the checkpoint of the tables.
        first_published: the first batch of each published topic that is younger than the checkpoint.

    Raises:
        MissingPartError: the relation cannot be read.
        ConfigError: R does not fit its declaration, or a condition of the pipeline is none.
    """
    started = time.perf_counter()
    with Session() as session:
        load_records(session, ranges, batches)
        classify(session, pipeline, added)
        classify_control(session, pipeline)
        name_reasons(session, pipeline, added)
        load_relations(session, pipeline)
        problems = load_tables(session, pipeline, warehouse)
        note_idle_violations(session)
        expect(session, pipeline)
        expect_punctuations(session, pipeline)
        expect_groups(session, pipeline)
        uncompared = expect_rollups(session, pipeline)
        keep_latest(session, pipeline)
        spell_records(session, pipeline, added)
        app_id = checkpoint_id(pipeline, warehouse)
        published = load_published(session, pipeline, ranges, first_published, app_id, added)
        # A topic has no partition columns, in which Delta has no empty text.
        topics = compare_topics(session, pipeline, published, uncompared)
        spell_partitions(session, pipeline)
        return VerifyReport(
            pipeline=pipeline.name,
            topics=count_topics(session, pipeline),
            tables=compare_tables(
                session, pipeline, problems, first_batches(pipeline, warehouse), uncompared
            ),
            published=topics,
            breaches=[
                *check_conservation(session, pipeline),
                *check_forgotten(session, pipeline),
                *check_topics(session, pipeline, published, uncompared),
            ],
            seconds=time.perf_counter() - started,
        )


def load_records(session: Session, ranges: Sequence[Range], batches: Iterable[pa.RecordBatch]) -> None:
    """Make the tables `ranges` and `records`.

    Args:
        session: the session.
        ranges: the offsets of the records.
        batches: the records, with the columns of `consume.SCHEMA`.
    """
    session.run('CREATE TABLE ranges (topic VARCHAR, "partition" INTEGER)')
    for each in ranges:
        session.run("INSERT INTO ranges VALUES (?, ?)", [each.topic, each.partition])
    session.run(
        'CREATE TABLE records (topic VARCHAR, "partition" INTEGER, "offset" BIGINT, value BLOB, '
        '"timestamp" BIGINT, key BLOB, headers STRUCT(name VARCHAR, value BLOB)[])'
    )
    for batch in batches:
        session.run_on(batch, "INSERT INTO records SELECT * FROM arriving")
