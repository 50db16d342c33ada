"""Runs a pipeline until a signal asks it to stop, or until all records that Kafka holds now are done."""

from __future__ import annotations

import time
import uuid
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from sqlalchemy.exc import SQLAlchemyError

from endmark.control.description import describe
from endmark.control.ops_database.database import OpsDatabase
from endmark.control.ops_database.runs import LOST_SECONDS, TakenError
from endmark.control.ops_database.signs_of_life import SignsOfLife
from endmark.control.pulse import Pulse
from endmark.control.tuning.job_autotune import Tuning
from endmark.control.tuning.knobs import stale, steps_of, unreadable
from endmark.control.tuning.unread_turns import UnreadTurns
from endmark.driver import checkpoint, published_topics
from endmark.driver.dropped_records import named, new_gaps, refusal, require_repeatable
from endmark.driver.moved_checkpoint import follow_move
from endmark.driver.pace import Pace
from endmark.driver.planned_batches import begun_partitions, drop_torn
from endmark.driver.quarantine import Quarantine
from endmark.driver.settings import settings
from endmark.driver.topics import make_topic, partition_counts
from endmark.engine import streams
from endmark.engine.bucket.lookup_plan import unpaged_lookups
from endmark.errors import ConfigError, EndmarkError
from endmark.kafka.offsets import TopicEnds
from endmark.kafka.sending import send
from endmark.operators.lookup.strategies import require_readable
from endmark.relation.sql import SqlRelation
from endmark.spark.listener import BatchListener
from endmark.spark.plan import Relations
from endmark.spark.publish import output_topics
from endmark.spark.queries import Queries, StallNotice
from endmark.spark.rescale import PARTITIONS, can_rescale, rescale
from endmark.spark.sink import JobRun, Sink
from endmark.spark.tables import checked, complete, remember, targets
from endmark.wire.control import PULSE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

    from endmark.driver.options import JobOptions
    from endmark.driver.stop import StopRequest
    from endmark.kafka.gaps import Gap
    from endmark.kafka.offsets import Offsets
    from endmark.pipeline import Lookup, Pipeline
    from endmark.relation.contract import PageDirectory

_TRY_AGAIN_SECONDS = 5.0
_LEAKS_SOCKETS = "4.2.0"  # two more open sockets after each batch of two buckets, in one job


def run_job(
    pipeline: Pipeline,
    options: JobOptions,
    session: Callable[[], SparkSession],
    say: Callable[[str], None],
    stop: StopRequest,
) -> None:
    """Run a pipeline until a request to stop, or with `available_now` until all is done.

    Args:
        pipeline: the pipeline.
        options: where the job reads and writes, and the resources that it may take.
        session: waits for the session and returns it; the job stops the session.
        say: called with a line at each step.
        stop: the request to stop; it listens to signals already.

    Raises:
        EndmarkError: something outside the program is wrong, before or while the job runs.
        KeyboardInterrupt: a signal has come before the query runs.
    """
    streams.check_conditions(pipeline)
    streams.check_schemas(pipeline)
    directories = {lookup.relation: _pages(pipeline, lookup, say) for lookup in pipeline.lookups}
    stop.check()
    topics = [stream.topic for stream in pipeline.streams.values()]
    partition_counts(options.bootstrap, topics)  # waits until the broker answers and has the topics
    make_topic(options.bootstrap, pipeline.control_topic)
    partitions = partition_counts(options.bootstrap, [*topics, pipeline.control_topic])
    stop.check()
    with checkpoint.claimed(options.checkpoint) as app_id:
        published = output_topics(pipeline, options.bootstrap, app_id, say)
        held = _keep_topics(options, list(partitions))
        drop_torn(options.checkpoint.resolve() / "spark", say)
        before = checkpoint.buckets_before(options.checkpoint, options.buckets)
        follow_move(options.checkpoint.resolve() / "spark")
        batch = checkpoint.next_batch(options.checkpoint)
        tables = targets(pipeline, options.warehouse.resolve())
        by_name = {table.path.name: table for table in tables}
        # Tables are checked before new settings are stored, as the file of before could not go on with these.
        found = checked(by_name, app_id, options.checkpoint, batch)
        ends = _ends(options, list(pipeline.outputs.topics.values()))
        published_topics.require_own(options.checkpoint, pipeline.publish, ends, batch)
        pinned = settings(pipeline, before or options.buckets)
        checkpoint.pin(options.checkpoint, pinned, options.warehouse)
        _require_begun_buckets(options)
        added = {
            f"{pipeline.flow.taker_of(stream)}_{column}"
            for stream, columns in checkpoint.first_offsets(options.checkpoint).items()
            for column in columns
        }
        complete(by_name, found, app_id, options.checkpoint, batch, added)
        checkpoint.stop_others(options.checkpoint, by_name, batch)
        published_topics.know_topics(options.checkpoint, pipeline.publish, batch)
        with closing(OpsDatabase(options.ops_url)) as ops:
            run = JobRun(app_id, str(uuid.uuid4()), tables, published, ops, partitions, say)
            _start_run(ops, run, pipeline.name, options, stop)
            try:
                with SignsOfLife(ops, run.run_id, say) as signs:
                    run = replace(run, gaps=_gaps(run, options, pipeline.control_topic, held, found, ends))
                    ops.pipelines.describe(pipeline.name, describe(pipeline, run.gaps).model_dump())
                    stop.check()
                    say("starting Spark")
                    _run(pipeline, options, session, directories, run, signs, say, stop)
            except (Exception, KeyboardInterrupt) as error:
                if stop.explains(error):
                    _store_failure(run, "stopped")
                else:
                    _store_failure(run, "failed", str(error))
                raise
            remember(by_name, app_id, options.checkpoint)
            is_done = options.available_now and not stop.event.is_set()
            ops.runs.set_state(run.run_id, "done" if is_done else "stopped")


def _start_run(ops: OpsDatabase, run: JobRun, pipeline: str, options: JobOptions, stop: StopRequest) -> None:
    """Store the run in the ops database, as soon as no other job lives that it excludes.

    Without a lock of the checkpoint, a job that was killed counts as alive for half a minute.
    """
    at = options.checkpoint.resolve()
    locked, until = isinstance(at, Path), time.monotonic() + LOST_SECONDS
    while True:
        try:
            ops.runs.start(run.run_id, pipeline, run.app_id, str(at), locked=locked)
        except TakenError as error:
            if locked or time.monotonic() > until:
                raise
            run.say(f"waits up to {until - time.monotonic():.0f} s: {error}")
            stop.event.wait(_TRY_AGAIN_SECONDS)
            stop.check()
        else:
            return


def _store_failure(run: JobRun, state: str, cause: str | None = None) -> None:
    """Store the end of a run that an error ends. An ops database that is away must not hide that error."""
    try:
        run.ops.runs.set_state(run.run_id, state, cause)
    except (EndmarkError, SQLAlchemyError, OSError) as error:
        run.say(f"nobody learns from the ops database that the job is {state}: {error}")


def _require_begun_buckets(options: JobOptions) -> None:
    """Refuse other buckets than those of a start that has begun to split them.

    Raises:
        ConfigError: Spark has begun to make partitions of state for another number of buckets.
    """
    begun = begun_partitions(options.checkpoint.resolve() / "spark")
    if begun not in {None, options.buckets}:
        raise ConfigError(
            f"checkpoint {options.checkpoint}: a job that had to split its state for {begun} buckets was "
            f"killed meanwhile; start the job with --buckets {begun}, which goes on with it"
        )


def _keep_topics(options: JobOptions, topics: list[str]) -> Offsets:
    """Require the topics that the checkpoint has read; return the first offsets that Kafka holds.

    A new checkpoint begins with these.
    """
    known = checkpoint.topic_ids(options.checkpoint)
    with closing(TopicEnds(options.bootstrap, topics, ids=known)) as kafka:
        if (ids := known | kafka.ids()) != known:
            checkpoint.keep_topic_ids(options.checkpoint, ids)
        held = kafka.first()
        if not checkpoint.start_offsets(options.checkpoint):
            checkpoint.keep_start_offsets(options.checkpoint, held)
        return held


def _gaps(
    run: JobRun,
    options: JobOptions,
    control_topic: str,
    held: Offsets,
    tables: Mapping[str, DeltaTable | None],
    published: Offsets,
) -> tuple[Gap, ...]:
    """Return all gaps of the checkpoint, with new ones if the job may skip the records that Kafka dropped.

    Args:
        run: the run of the job.
        options: the options of the job.
        control_topic: the control topic.
        held: the first offsets that Kafka holds, by topic and partition.
        tables: the tables that the job writes, by a name; `None` if the start has made one.
        published: the offsets behind the last records of the output topics.

    Raises:
        ConfigError: Kafka has dropped unread records, and the job may not skip them.
        UnreachableError: Kafka does not answer.
    """
    known = checkpoint.gaps(options.checkpoint)
    if known:
        run.say(f"earlier starts have skipped {named(known)}")
    if not (found := new_gaps(options.checkpoint, held)):
        return known
    if not options.skip_dropped_records:
        raise refusal(found, options.bootstrap)
    written = {
        name: None if table is None else table.transaction_version(run.app_id)
        for name, table in tables.items()
    }
    sent = partial(published_topics.topics_with, options.bootstrap, published, run.app_id)
    require_repeatable(options.checkpoint, found, written, sent)
    # A batch in which all is skipped runs no bucket, so it forgets what waits. The pulse runs all buckets.
    send(options.bootstrap, control_topic, PULSE)
    checkpoint.keep_gaps(options.checkpoint, [*known, *found])
    for gap in found:
        run.say(f"skips {gap}, which Kafka has dropped: up to {gap.offsets:,} records")
    return (*known, *found)


def _ends(options: JobOptions, topics: list[str]) -> Offsets:
    """Return the offsets behind the last records of topics."""
    if not topics:
        return {}
    with closing(TopicEnds(options.bootstrap, topics)) as kafka:
        return kafka.ends()


def _pages(pipeline: Pipeline, lookup: Lookup, say: Callable[[str], None]) -> PageDirectory:
    say(f"checking relation {lookup.relation}")
    relation = SqlRelation(pipeline.relations[lookup.relation], say)
    relation.check(unique=lookup.unique, versions=lookup.versions)
    directory = relation.directory(lookup.page_rows)
    require_readable(f"{pipeline.field_of(lookup)}.strategy", lookup.strategy, directory.unpaged)
    say(directory.unpaged or f"relation {lookup.relation}: {len(directory)} pages")
    return directory


def _run(
    pipeline: Pipeline,
    options: JobOptions,
    session: Callable[[], SparkSession],
    directories: Mapping[str, PageDirectory],
    run: JobRun,
    signs: SignsOfLife,
    say: Callable[[str], None],
    stop: StopRequest,
) -> None:
    """Run the queries of a job in a session. Its buckets are split first if there are to be more."""
    spark = session()
    stop.wait_quietly()
    say("Spark is up")
    if spark.version == _LEAKS_SOCKETS:
        say(f"Spark {spark.version} keeps a socket open for each task (SPARK-58932); install pyspark 4.2.1")
    signs.ask(lambda: spark.streams.active)
    steps, unpaged = steps_of(pipeline), unpaged_lookups(pipeline, directories)

    def refused(name: str, value: Any) -> str | None:
        return stale(steps, name, value) or unreadable(unpaged, name, value)

    for turn in run.ops.turns.refuse(pipeline.name, refused):
        say(f"ignores what {turn['by']} turned in batch {turn['batch_id']}: {turn['refused']}")
    try:
        spark.streams.addListener(BatchListener(run.ops, pipeline.name))
        before = checkpoint.buckets_before(options.checkpoint, options.buckets)
        if before is not None:
            if not can_rescale(spark, options.checkpoint):
                say(f"works off what waits with {before} buckets, before there are {options.buckets}")
                spark.conf.set(PARTITIONS, before)
                earlier = replace(options, buckets=before, available_now=True)
                _run_queries(spark, pipeline, earlier, directories, run, say, stop)
                spark.conf.set(PARTITIONS, options.buckets)
                stop.check()
            rescale(spark, options.checkpoint, before, options.buckets, say)
        _run_queries(spark, pipeline, options, directories, run, say, stop)
        say("stopped")
    finally:
        signs.ask(None)
        with suppress(Py4JError, OSError):  # its JVM may be gone
            spark.stop()


def _run_queries(
    spark: SparkSession,
    pipeline: Pipeline,
    options: JobOptions,
    directories: Mapping[str, PageDirectory],
    run: JobRun,
    say: Callable[[str], None],
    stop: StopRequest,
) -> None:
    """Run queries until a signal asks to stop or, with `available_now`, until all is done."""
    # A job that stops by itself reads no record that is sent after its start.
    tuning = None if options.available_now else Tuning(pipeline, run.ops)
    pulse = Pulse(options.bootstrap, pipeline.control_topic, tuning)
    pace = Pace(pipeline, run.ops.turns.of(pipeline.name), fixed=options.available_now)
    quarantine = Quarantine(pipeline)
    sink = Sink(pipeline, run, pulse, pace, quarantine)
    if (latest := run.ops.batches.latest(pipeline.name)) is not None:
        pulse.batch_done(latest.samples, latest.offsets)
    turns = UnreadTurns(options.bootstrap, pipeline.control_topic, pulse.read)
    try:
        queries = Queries(
            spark,
            pipeline,
            options,
            Relations(directories, run.run_id),
            run.partitions,
            checkpoint.start_offsets(options.checkpoint),
            checkpoint.topic_ids(options.checkpoint),
            run.gaps,
            checkpoint.fewer_buckets(options.checkpoint),
            sink,
            pace,
            quarantine,
            turns,
            StallNotice(say),
        )
        query = queries.start()
        run.ops.runs.set_state(run.run_id, "running")
        say("running")
        queries.run(query, pulse, stop.event)
        if options.available_now:
            queries.finish(pulse, stop.event)
    finally:
        turns.close()
        pulse.close()
