"""The command `endmark`.

It exits with 0 if all is done, with 1 if a job failed while it ran or `verify` found a difference, with 2 if
the user must mend something first, and with 75 if a server does not answer now.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import re
import sys
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer
from pydantic import TypeAdapter, ValidationError
from rich.console import Console

from endmark.cli import broker, classes, dead_letters, feed, init, knobs, maintain, migrate, ops, why
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
from endmark.errors import (
    EXIT_FAILED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    ConfigError,
    EndmarkError,
    MissingPartError,
    UnreachableError,
)
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import states
from endmark.pipeline.chain import chained
from endmark.pipeline.explanation import explained
from endmark.pipeline.fields import Duration, size
from endmark.pipeline.file import load, located
from endmark.pipeline.picture import drawn
from endmark.pipelines import AUCTION
from endmark.private import keep_private

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.control.database import FinishedBatch
    from endmark.driver.options import JobOptions

# Errors of a directory or file that cannot be made, read or written.
_UNWRITABLE = {
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
_FULL = {errno.ENOSPC, errno.EDQUOT}

_MASTER = r"local(\[[^\]]+\])?|local-cluster\[[^\]]+\]|yarn|(spark|k8s)://\S+"

# The extra that has the packages of a command; all others need those of a job, or none.
_EXTRAS = {"demo": "spark,ops", "maintain": "verify", "ops": "ops", "status": "ops", "verify": "verify"}

app = typer.Typer(
    help="Near-real-time ETL whose state is bounded by what the data says is finished.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _memory(given: str) -> str:
    if re.fullmatch("[1-9][0-9]*[kmgt]b?", given, re.IGNORECASE) is None:
        raise typer.BadParameter(f"{given!r} must be a number and a unit, such as 2g or 512m")
    return given


def _master(given: str) -> str:
    if re.fullmatch(_MASTER, given) is None:
        raise typer.BadParameter(f"{given!r} must be local[N], yarn, spark://HOST:PORT or k8s://URL")
    return given


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"endmark {version('endmark')}")
        raise typer.Exit


@app.callback()
def _begin(
    _version: Annotated[
        bool, typer.Option("--version", help="Say the version.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    pass


app.add_typer(knobs.app, name="knobs")
app.add_typer(dead_letters.app, name="dead-letters")
app.command()(broker.broker)
app.command()(init.init)
app.command()(feed.feed)
app.command()(feed.feed_example)
app.command()(feed.feed_workload)
app.command()(ops.ops)
app.command()(maintain.maintain)
app.command()(migrate.migrate)
app.command()(ops.status)
app.command()(ops.forget)
app.command()(why.why)
app.command()(classes.record_classes)


def _bytes(text: str) -> int:
    try:
        return int(size(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@app.command()
def validate(
    pipeline: PipelineOrExample = AUCTION,
    assignments: Assignments = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Draw it as a Mermaid diagram.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a pipeline file without running it, and say what bounds its state."""
    spec = load(pipeline, assignments=assignments or (), asks_relations=False)
    try:
        _check_conditions(spec)
    except ConfigError as error:
        raise located(pipeline, error) from None
    kept = states(spec)
    if as_json:
        facts = {"valid": True, "pipeline": spec.name, "state": [s.facts for s in kept]}
        Output(as_json).emit(facts | ({"mermaid": drawn(spec)} if mermaid else {}))
    elif mermaid:
        typer.echo(drawn(spec))
    else:
        typer.echo(f"{pipeline}: pipeline {spec.name} is valid")
        for state in kept:
            typer.echo(str(state))


@app.command()
def explain(
    pipeline: PipelineOrExample = AUCTION, assignments: Assignments = None, as_json: AsJson = False
) -> None:
    """Say what runs where, what is in state and what bounds it, and when rows of tables are final."""
    found = explained(load(pipeline, assignments=assignments or (), asks_relations=False))
    if as_json:
        Output(as_json).emit(found.facts)
    else:
        typer.echo("\n".join(found.lines()))


@app.command()
def chain(
    pipeline: PipelineOrExample = AUCTION,
    step: Annotated[str | None, typer.Argument(help="Published step; needed if there are several.")] = None,
    spread: Annotated[
        str,
        typer.Option(help="Event time by which a stream may move on in one batch, over all partitions."),
    ] = "1h",
    assignments: Assignments = None,
    as_json: AsJson = False,
) -> None:
    """Print the entry under `streams` by which another pipeline reads what this one publishes."""
    found = chained(load(pipeline, assignments=assignments or (), asks_relations=False), step, _span(spread))
    if as_json:
        Output(as_json).emit(found.entry)
    else:
        typer.echo("\n".join(found.lines()))


def _span(text: str) -> timedelta:
    try:
        return TypeAdapter(Duration).validate_python(text)
    except ValidationError as error:
        raise ConfigError(f"--spread: {error.errors()[0]['msg']}") from None


def _check_conditions(spec: Pipeline) -> None:
    """Check the conditions of a pipeline, or say that a package for that is missing."""
    has_where = spec.join is not None and spec.join.where is not None
    if not has_where and all(stream.closes is None for stream in spec.streams.values()):
        return
    try:
        from endmark.engine.streams import check_conditions

        check_conditions(spec)
    except ImportError as error:
        typer.echo(
            f"endmark: conditions are not checked, since the package {error.name} is missing; "
            "pip install 'endmark[spark]'",
            err=True,
        )


@app.command()
def plan(
    pipeline: PipelineOrExample = AUCTION,
    relation: Annotated[
        str | None, typer.Option(help="Relation of the lookup; needed if the file has several lookups.")
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(parser=_bytes, help="Memory for waiting rows, such as 50MB; by default the file's."),
    ] = None,
    batch_rows: Annotated[int, typer.Option(min=1, help="Stream rows of a batch.")] = 100_000,
    exponent: Annotated[
        float,
        typer.Option(min=0, max=5, help="Exponent of the keys' Zipf distribution; 0 is uniform."),
    ] = 0.0,
    rate: Annotated[
        list[str] | None,
        typer.Option(metavar="STREAM=ROWS", help="Rows of a stream a second, to plan the join; repeat."),
    ] = None,
    interval: Annotated[
        list[str] | None,
        typer.Option(metavar="STREAM=ROWS", help="Rows between two punctuations of a stream; repeat."),
    ] = None,
    until_closed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STREAM=SECONDS",
            help="Mean time from a row of a stream until the other stream closes its key; repeat.",
        ),
    ] = None,
    lag: Annotated[
        float | None,
        typer.Option(min=0, max=1e9, help="Mean seconds between the two streams' punctuations of a key."),
    ] = None,
    buckets: Annotated[int, typer.Option(min=1, help="Hash shares of state, as in `run`.")] = 2,
    assignments: Assignments = None,
    ops_url: Annotated[
        str | None,
        typer.Option(
            help="Ops database: it has the figures of the join, and stores the forecasts.",
            envvar="ENDMARK_OPS_URL",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure reads of the relation; predict the rate of each lookup strategy and the state of the join.

    The state is predicted for a join of two streams.
    """
    from endmark.control import forecasts
    from endmark.control.database import opened
    from endmark.planning.join_forecast import forecast_join, is_predictable, measured, with_given
    from endmark.planning.join_state import BATCHES
    from endmark.planning.lookup_forecast import UnpagedError, forecast

    spec = load(pipeline, assignments=assignments or ())
    given = {
        field: _by_stream(field, texts or ())
        for field, texts in (("rate", rate), ("interval", interval), ("until_closed", until_closed))
    }
    batches: Sequence[FinishedBatch] = ()
    if ops_url:
        with opened(ops_url) as database:
            batches = database.batches_after(spec.name, -1, BATCHES)
    is_planned = is_predictable(spec) or lag is not None or any(given.values())
    figures = with_given(spec, measured(spec, batches), given, lag) if is_planned else None
    join = None if figures is None else forecast_join(spec, figures, buckets)
    found, unpaged = None, []
    try:
        found = forecast(spec, relation, memory, batch_rows, exponent) if spec.lookups or relation else None
    except UnpagedError as why:
        unpaged = [str(why), ""]
    if ops_url:
        with opened(ops_url) as database:
            for made in (found, join):
                if made is not None:
                    forecasts.store(database, spec.name, made.for_sidecar())
    if as_json:
        facts = {} if found is None else found.facts
        Output(as_json).emit({**facts, "join": None if join is None else join.facts})
        return
    lines = unpaged if found is None else [*found.lines(), ""]
    unknown = "the join is not predicted: give --rate of each stream, or --ops-url of a job that has run"
    if (count := len(spec.read_streams)) > 2:
        lines.append(f"the join is not predicted: the model is for two streams, not {count}")
    elif spec.join is not None:
        lines += [unknown] if join is None else join.lines()
    typer.echo("\n".join(lines))


def _by_stream(field: str, texts: Sequence[str]) -> dict[str, float]:
    found = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            found[name] = float(number)
        except ValueError:
            found[name] = 0.0
        if not 0 < found[name] < math.inf:
            option = field.replace("_", "-")
            raise ConfigError(f"--{option}: {text!r} must be the name of a stream, = and a number above 0")
    return found


@app.command()
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
    from endmark.spark.class_archive import local_jars
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
                say(_places(options))
                run_job(spec, options, session, say, stop)
        except (Exception, KeyboardInterrupt) as error:
            if not stop.explains(error):
                raise
            say("stopped; a batch that was under way is repeated by the next start")


def _places(options: JobOptions) -> str:
    """Say where a job reads and writes."""
    # SQLAlchemy takes 0.15 s, in which Java can start already.
    from endmark.databases import database_url, place

    ops = place(database_url(options.ops_url, "the ops URL"))
    return (
        f"broker {options.bootstrap}, tables in {options.warehouse}, checkpoint in {options.checkpoint}, "
        f"ops database {ops}"
    )


@app.command()
def verify(
    pipeline: PipelineOrExample = AUCTION,
    bootstrap: Bootstrap = None,
    warehouse: Warehouse = None,
    checkpoint: Checkpoint = None,
    until_read: Annotated[
        bool, typer.Option(help="Leave out records that the stopped job has not read, by its ops database.")
    ] = False,
    ops_url: OpsUrl = OPS_URL,
    assignments: Assignments = None,
    as_json: AsJson = False,
) -> None:
    """Recompute everything from Kafka and the relation and compare it with the Delta tables.

    The job must be stopped or idle, and Kafka must hold all records that it has read. Its checkpoint has the
    first offsets, and those with columns that were added later.
    """
    from endmark.control.database import offsets_read
    from endmark.driver.checkpoint import first_offsets, gaps, start_offsets
    from endmark.verify.added_columns import AddedColumns
    from endmark.verify.report import render
    from endmark.verify.verification import verify as recompute

    spec = load(pipeline, assignments=assignments or ())
    until = offsets_read(ops_url, spec.name) if until_read else None
    kafka = kafka_of(spec.kafka, bootstrap)
    of = checkpoint_of(spec.name, checkpoint)
    added = AddedColumns(first_offsets(of))
    tables = warehouse_of(spec.name, warehouse)
    report = recompute(spec, kafka, tables, until, added, start_offsets(of), gaps(of))
    if as_json:
        typer.echo(report.to_json())
    else:
        Console().print(render(report))
    if not report.ok:
        raise typer.Exit(EXIT_FAILED)


@app.command()
def demo(
    example: Annotated[
        Literal["auction", "fulfilment", "news", "orders"], typer.Option(help="The example pipeline to run.")
    ] = "auction",
    minutes: Annotated[float, typer.Option(help="How long the feed runs.")] = 2.0,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal records.")] = 1,
    rate: Annotated[float, typer.Option(help="Mean records a second.")] = 4_000.0,
    sellers: Annotated[int, typer.Option(help="Rows of the auction's master table.")] = 500_000,
    lookup: Annotated[Literal["sqlite", "mysql"], typer.Option(help="Where master tables are.")] = "sqlite",
    directory: Annotated[Path, typer.Option(help="Where runs are kept, one folder each.")] = Path("var/demo"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Dashboard port; 0 takes a free one.")] = 0,
    kills: Annotated[
        int, typer.Option(min=0, help="How often the job is killed and started again while the feed runs.")
    ] = 0,
    stay: Annotated[
        bool, typer.Option("--stay", help="Let broker, job and dashboard stay after that, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the whole warehouse on this machine: broker, feed, job, dashboard; then verify it."""
    from endmark.demo.choreography import DemoOptions, run_demo

    options = DemoOptions(example, minutes, seed, rate, sellers, lookup, directory, port, kills, stay)
    if not run_demo(options, as_json=as_json):
        raise typer.Exit(EXIT_FAILED)


def main(commands: typer.Typer = app) -> None:
    """Run a command; print an error that a user can mend as one line, without a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Records and names of files may have letters that the terminal's encoding lacks.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        commands()
    except EndmarkError as error:
        _refuse(str(error), _exit_code(error))
    except ModuleNotFoundError as error:
        if (extra := _extra_of(error, sys.argv[1:])) is None:
            raise
        _refuse(f"the package {error.name} is missing; pip install 'endmark[{extra}]'", EXIT_USAGE)
    except OSError as error:
        if error.errno in _UNWRITABLE and error.filename is not None:
            # The file may come from any option, so the text names none.
            _refuse(f"{error.filename}: {error.strerror}; name a place that this user can write", EXIT_USAGE)
        if error.errno in _FULL:
            where = "" if error.filename is None else f"{error.filename}: "
            _refuse(f"{where}{error.strerror}; make room, and start again", EXIT_FAILED)
        raise


def _extra_of(error: ModuleNotFoundError, arguments: Sequence[str]) -> str | None:
    """Return the extra whose packages a command needs; `None` if the missing module is one of our own."""
    if error.name is None or error.name.startswith("endmark"):
        return None
    return next((_EXTRAS[word] for word in arguments[:1] if word in _EXTRAS), "spark")


def _exit_code(error: EndmarkError) -> int:
    match error:
        case UnreachableError():
            return EXIT_UNREACHABLE
        case ConfigError() | MissingPartError():
            return EXIT_USAGE
    return EXIT_FAILED


def _refuse(text: str, code: int) -> NoReturn:
    if "--json" in sys.argv:
        typer.echo(json.dumps({"error": text}))
    else:
        typer.echo(f"endmark: {text}", err=True)
    raise SystemExit(code) from None
