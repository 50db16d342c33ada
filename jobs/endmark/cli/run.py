"""The command that runs a pipeline as a job."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from endmark.cli.options import (
    OPS_URL,
    AsJson,
    Assignments,
    Bootstrap,
    Checkpoint,
    OpsUrl,
    Output,
    PipelineOrExample,
    Warehouse,
    checkpoint_of,
    home_of,
    kafka_of,
    warehouse_of,
)
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark.private import keep_private

if TYPE_CHECKING:
    from endmark.driver.options import JobOptions


_MASTER = r"local(\[[^\]]+\])?|local-cluster\[[^\]]+\]|yarn|(spark|k8s)://\S+"


def _memory(given: str) -> str:
    if re.fullmatch("[1-9][0-9]*[kmgt]b?", given, re.IGNORECASE) is None:
        raise typer.BadParameter(f"{given!r} must be a number and a unit, such as 2g or 512m")
    return given


def _master(given: str) -> str:
    if re.fullmatch(_MASTER, given) is None:
        raise typer.BadParameter(f"{given!r} must be local[N], yarn, spark://HOST:PORT or k8s://URL")
    return given


def run(
    pipeline: PipelineOrExample = AUCTION,
    bootstrap: Bootstrap = None,
    warehouse: Warehouse = None,
    checkpoint: Checkpoint = None,
    ops_url: OpsUrl = OPS_URL,
    master: Annotated[
        str, typer.Option(help="Spark master; ignored under spark-submit.", callback=_master)
    ] = "local[2]",
    buckets: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Hash shares of state, one task each; later a multiple.",
            show_default="as in the checkpoint, or 2",
        ),
    ] = None,
    available_now: Annotated[bool, typer.Option(help="Stop after the records that Kafka holds now.")] = False,
    driver_memory: Annotated[
        str, typer.Option(help="Heap of the driver, such as 2g or 512m.", callback=_memory)
    ] = "2g",
    skip_dropped_records: Annotated[
        bool,
        typer.Option(
            "--skip-dropped-records",
            help="Go on without the records that Kafka dropped before this start and no batch has read.",
        ),
    ] = False,
    assignments: Assignments = None,
    as_json: AsJson = False,
) -> None:
    """Run a pipeline until SIGTERM, or with --available-now until it is done.

    Without options, it reads from the broker of `endmark broker`. It keeps tables and checkpoint in
    var/NAME, by the name of the pipeline, and the ops database of all pipelines in var/ops.db.

    The command exits with 0 after a signal to stop, or when all is done and written. It exits with 1 if the
    job failed; the next run goes on where this one stopped. It exits with 2 if something must be mended
    before the job can start, and with 75 if a server did not answer.
    """
    from endmark.driver.checkpoint import buckets_of
    from endmark.driver.stop import StopRequest
    from endmark.embedded.jars import s3_jars, spark_jars
    from endmark.spark.processes.class_archive import local_jars
    from endmark.spark.s3 import s3_settings
    from endmark.spark.session import submitted
    from endmark.spark.session_start import session_starting

    spec, say, stop = load(pipeline, assignments=assignments or ()), Output(as_json).say, StopRequest()
    kept = checkpoint_of(spec.name, checkpoint)
    in_store = not isinstance(kept, Path)
    found = local_jars if master.startswith("local") else spark_jars
    with stop.listening():
        try:
            jars = [] if submitted() else found(say)
            store_jars = s3_jars(say) if in_store and not submitted() else []
            keep_private()  # after fetching the jars, which other users of this installation may share
            buckets = buckets or buckets_of(kept)
            with session_starting(
                f"endmark {spec.name}",
                jars,
                master=master,
                buckets=buckets,
                driver_memory=driver_memory,
                store=s3_settings(os.environ) if in_store else {},
                store_jars=store_jars,
            ) as session:
                from endmark.driver.options import JobOptions
                from endmark.spark.job import run_job  # takes a second, while the session takes four

                options = JobOptions(
                    bootstrap=kafka_of(spec.kafka, bootstrap),
                    warehouse=warehouse_of(spec.name, warehouse),
                    checkpoint=kept,
                    ops_url=ops_url,
                    master=master,
                    buckets=buckets,
                    available_now=available_now,
                    driver_memory=driver_memory,
                    skip_dropped_records=skip_dropped_records,
                )
                if ops_url is None:
                    home_of(spec.name).mkdir(parents=True, exist_ok=True)
                say(_locations(options))
                run_job(spec, options, session, say, stop)
        except (Exception, KeyboardInterrupt) as error:
            if not stop.explains(error):
                raise
            say("stopped; a batch that was under way is repeated by the next start")


def _locations(options: JobOptions) -> str:
    """Say where a job reads and writes."""
    # SQLAlchemy takes 0.15 s, in which Java can start already.
    from endmark.databases import database_url, shown_url

    ops = shown_url(database_url(options.ops_url, "the ops URL"))
    return (
        f"broker {options.bootstrap}, tables in {options.warehouse}, checkpoint in {options.checkpoint}, "
        f"ops database {ops}"
    )
