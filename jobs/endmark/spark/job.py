"""Runs a pipeline until it is told to stop, or until what is in Kafka now is done."""

from __future__ import annotations

import re
import shutil
import signal
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from endmark.errors import EndmarkError
from endmark.ops.database import OpsDatabase
from endmark.ops.description import describe
from endmark.ops.pulse import Pulse
from endmark.ops.tuning import Tuning
from endmark.relation.sql import SqlRelation
from endmark.spark import checkpoint, plan, streams
from endmark.spark.cache import cache_directory, cache_name, remove_orphaned_caches
from endmark.spark.kafka import make_topic, partition_counts
from endmark.spark.listener import BatchListener
from endmark.spark.publish import OutputTopic, output_topic
from endmark.spark.session import SAFE_FORMAT, start_session
from endmark.spark.sink import Sink
from endmark.spark.tables import Target, prepare, targets
from endmark.spark.warm_up import warm_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from endmark.pipeline import Lookup, Pipeline
    from endmark.relation.contract import PageDirectory

_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class JobOptions:
    """Where a job reads and writes, and how fast.

    Args:
        bootstrap: the broker's host:port.
        warehouse: directory of the Delta tables.
        checkpoint: directory of the checkpoint; belongs to that warehouse.
        ops_url: SQLAlchemy URL of the ops database.
        master: Spark master; spark-submit's, if it has started the program. So is the driver's memory.
        buckets: hash shares of state, one task each; fixed for the life of a checkpoint.
        trigger_seconds: least time from the start of one batch to the next.
        max_records_per_batch: bounds a batch after a pause.
        available_now: stop after what Kafka holds at the start, and what waits of it.
        driver_memory: the driver's heap, as Spark writes it.
    """

    bootstrap: str
    warehouse: Path
    checkpoint: Path
    ops_url: str
    master: str = "local[2]"
    buckets: int = 2
    trigger_seconds: float = 1.0
    max_records_per_batch: int = 500_000
    available_now: bool = False
    driver_memory: str = "2g"


class JobFailedError(EndmarkError):
    """The query stopped by itself; the text is its cause."""


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
            source = plan.Source(options.bootstrap, partitions, options.max_records_per_batch)
            _run(pipeline, options, jars, source, directories, _Run(app_id, run_id, tables, topic, ops, say))
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


@dataclass(frozen=True)
class _Run:
    app_id: str
    run_id: str
    tables: list[Target]
    topic: OutputTopic | None
    ops: OpsDatabase
    say: Callable[[str], None]


def _run(
    pipeline: Pipeline,
    options: JobOptions,
    jars: list[Path],
    source: plan.Source,
    directories: Mapping[str, PageDirectory],
    run: _Run,
) -> None:
    spark = _spark(pipeline.name, options, jars, run.say)
    run.say("Spark is up")
    warm_up(spark, options.buckets)
    cache = cache_name(run.run_id)
    remove_orphaned_caches()
    # What ends by itself reads nothing that is sent after its start.
    tuning = None if options.available_now else Tuning(pipeline, run.ops)
    pulse = Pulse(options.bootstrap, pipeline.control_topic, tuning)
    if (latest := run.ops.latest_batch(pipeline.name)) is not None:
        pulse.batch_done(latest.samples, latest.offsets)
    try:
        spark.streams.addListener(BatchListener(run.ops, pipeline.name))
        records = plan.kafka_records(spark, source)
        # Spark shares a batch out among partitions and rounds each share down. A pulse alone fills none.
        full = max(2, options.max_records_per_batch - sum(source.partitions.values()))
        frame = plan.build(
            spark,
            pipeline,
            records,
            source.partitions,
            directories,
            cache,
            full_batch=None if options.available_now else full,
        )
        sink = Sink(
            pipeline, run.tables, run.topic, run.app_id, run.ops, run.run_id, pulse, source.partitions
        )
        writer = (
            frame.writeStream.queryName(pipeline.name)
            .foreachBatch(sink)
            .option("checkpointLocation", str(options.checkpoint.resolve() / "spark"))
            .trigger(**_trigger(options))
        )
        stop = _signalled()
        query = writer.start()
        run.ops.set_run_state(run.run_id, "running")
        run.say("running")
        _wait(query, options.bootstrap, stop, pulse)
        if options.available_now:
            _finish(writer, options.bootstrap, stop, pulse)
        run.say("stopped")
    finally:
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


def _trigger(options: JobOptions) -> dict[str, Any]:
    if options.available_now:
        return {"availableNow": True}
    return {"processingTime": f"{options.trigger_seconds} seconds"}


def _signalled() -> threading.Event:
    """Set by SIGTERM and SIGINT."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _finish(writer: DataStreamWriter, bootstrap: str, stop: threading.Event, pulse: Pulse) -> None:
    """Run on until nothing waits that has been read so far, since a query that ends by itself reads no pulse
    that is sent after its start."""
    read_until = time.time()
    while pulse.waits_for(read_until) and not stop.wait(max(0.0, (pulse.due or 0.0) - time.time())):
        pulse.beat()
        _wait(writer.start(), bootstrap, stop, pulse)


def _wait(query: StreamingQuery, bootstrap: str, stop: threading.Event, pulse: Pulse) -> None:
    try:
        while query.isActive and not stop.wait(_POLL_SECONDS):
            pulse.turn()
            if pulse.due is not None and not query.status["isDataAvailable"]:
                pulse.beat()
        query.stop()
        if (failure := query.exception()) is not None:
            raise JobFailedError(cause_of(str(failure), bootstrap))
    except StreamingQueryException as error:
        raise JobFailedError(cause_of(str(error), bootstrap)) from error


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
