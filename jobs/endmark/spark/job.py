"""Runs a pipeline until it is told to stop, or until what is in Kafka now is done."""

from __future__ import annotations

import shutil
import signal
import threading
import uuid
from typing import TYPE_CHECKING

from endmark.ops.database import OpsDatabase
from endmark.ops.description import describe
from endmark.ops.pulse import Pulse
from endmark.ops.tuning import Tuning
from endmark.ops.unread import UnreadTurns
from endmark.relation.sql import SqlRelation
from endmark.spark import checkpoint, streams
from endmark.spark.cache import cache_directory, cache_name, remove_orphaned_caches
from endmark.spark.kafka import make_topic, partition_counts
from endmark.spark.listener import BatchListener
from endmark.spark.pace import Pace
from endmark.spark.publish import output_topic
from endmark.spark.queries import Queries
from endmark.spark.session import SAFE_FORMAT, start_session
from endmark.spark.sink import Run, Sink
from endmark.spark.tables import prepare, targets
from endmark.spark.warm_up import warm_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from endmark.pipeline import Lookup, Pipeline
    from endmark.relation.contract import PageDirectory
    from endmark.spark.options import JobOptions


def run_job(pipeline: Pipeline, options: JobOptions, jars: list[Path], say: Callable[[str], None]) -> None:
    """Run until SIGTERM or SIGINT, or until done with `available_now`.

    `jars` are those that Spark needs and spark-submit has not brought.

    Raises:
        EndmarkError: something outside is wrong, before or while running.
    """
    streams.residual(pipeline)
    for stream in pipeline.sides:
        streams.closing(pipeline, stream)
    directories = {lookup.relation: _pages(pipeline, lookup, say) for lookup in pipeline.lookups}
    topics = [pipeline.streams[name].topic for name in pipeline.sides]
    partition_counts(options.bootstrap, topics)  # which waits for the broker and for whoever makes them
    make_topic(options.bootstrap, pipeline.control_topic)
    partitions = partition_counts(options.bootstrap, [*topics, pipeline.control_topic])
    with checkpoint.claimed(options.checkpoint) as app_id:
        topic = output_topic(pipeline, options.bootstrap, app_id)
        checkpoint.pin(options.checkpoint, checkpoint.settings(pipeline, options.buckets))
        tables = targets(pipeline, options.warehouse.resolve())
        prepare(tables, app_id)
        ops = OpsDatabase(options.ops_url)
        run_id = str(uuid.uuid4())
        ops.describe(pipeline.name, describe(pipeline).model_dump())
        ops.start_run(run_id, pipeline.name)
        try:
            say("starting Spark")
            _run(
                pipeline, options, jars, directories, Run(app_id, run_id, tables, topic, ops, partitions), say
            )
        except Exception as error:
            ops.set_run_state(run_id, "failed", str(error))
            raise
        else:
            ops.set_run_state(run_id, "stopped")
        finally:
            ops.close()


def _pages(pipeline: Pipeline, lookup: Lookup, say: Callable[[str], None]) -> PageDirectory:
    say(f"checking relation {lookup.relation}")
    relation = SqlRelation(pipeline.relations[lookup.relation], say)
    relation.check(unique=lookup.unique, versions=lookup.versions)
    directory = relation.directory(lookup.page_rows)
    say(f"relation {lookup.relation}: {len(directory)} pages")
    return directory


def _run(
    pipeline: Pipeline,
    options: JobOptions,
    jars: list[Path],
    directories: Mapping[str, PageDirectory],
    run: Run,
    say: Callable[[str], None],
) -> None:
    spark = _spark(pipeline.name, options, jars, say)
    say("Spark is up")
    warm_up(spark, options.buckets)
    cache = cache_name(run.run_id)
    remove_orphaned_caches()
    # What ends by itself reads nothing that is sent after its start.
    tuning = None if options.available_now else Tuning(pipeline, run.ops)
    pulse = Pulse(options.bootstrap, pipeline.control_topic, tuning)
    pace = Pace(pipeline, run.ops.turns(pipeline.name), fixed=options.available_now)
    sink = Sink(pipeline, run, pulse, pace)
    if (latest := run.ops.latest_batch(pipeline.name)) is not None:
        pulse.batch_done(latest.samples, latest.offsets)
    turns = UnreadTurns(options.bootstrap, pipeline.control_topic, pulse.read)
    try:
        spark.streams.addListener(BatchListener(run.ops, pipeline.name))
        queries = Queries(spark, pipeline, options, directories, cache, run.partitions, sink, pace, turns)
        stop = _signalled()
        query = queries.start()
        run.ops.set_run_state(run.run_id, "running")
        say("running")
        queries.run(query, pulse, stop)
        if options.available_now:
            queries.finish(pulse, stop)
        say("stopped")
    finally:
        turns.close()
        pulse.close()
        spark.stop()
        shutil.rmtree(cache_directory(cache), ignore_errors=True)


def _spark(name: str, options: JobOptions, jars: list[Path], say: Callable[[str], None]) -> SparkSession:
    state_format = checkpoint.state_format(options.checkpoint)
    if state_format != SAFE_FORMAT:
        say(
            f"checkpoint {options.checkpoint} has state in the format of earlier versions, which crashes can "
            "spoil; change to a new checkpoint and an empty warehouse"
        )
    return start_session(
        f"endmark {name}",
        jars,
        master=options.master,
        shuffle_partitions=options.buckets,
        driver_memory=options.driver_memory,
        state_format=state_format,
        delta=False,
    )


def _signalled() -> threading.Event:
    """Set by SIGTERM and SIGINT."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
