"""`python -m endmark_benchmarks`: measurements as ratios, with their machine and commit."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from endmark.cli.app import main

app = typer.Typer(
    help="Measure endmark beside other ways to do the same.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
Driver = Annotated[str, typer.Option(help="By which endmark asks the database, as SQLAlchemy names it.")]
Repeats = Annotated[int, typer.Option(min=1, help="Runs of each contender.")]
Contenders = Annotated[
    list[str] | None, typer.Option("--contender", help="One to run beside endmark; repeat for more. [all]")
]
Records = Annotated[int, typer.Option(min=3, help="In both topics.")]
BatchRecords = Annotated[int, typer.Option(min=1, help="Records of a batch.")]
Sellers = Annotated[int, typer.Option(min=1, help="Rows of R.")]
Rate = Annotated[float, typer.Option(min=1, help="Records for a second of event time.")]
Recordings = Annotated[Path, typer.Option(help="Where recorded input is kept.")]


def say(text: str) -> None:
    """Progress for people, on stderr."""
    typer.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)


@app.command()
def lookup_join(
    stream_rows: Annotated[int, typer.Option(min=2, help="Rows of each stream.")] = 3_200_000,
    relation_rows: Annotated[int, typer.Option(min=1, help="Rows of R.")] = 2_000_000,
    batch_rows: Annotated[
        list[int] | None, typer.Option(min=1, help="Rows of a batch; repeat for more. [100,000 and 400,000]")
    ] = None,
    delay: Annotated[
        list[float] | None, typer.Option(min=0, help="Milliseconds to the database; repeat for more. [0]")
    ] = None,
    driver: Driver = "pymysql",
    repeats: Repeats = 3,
    contenders: Contenders = None,
    recordings: Recordings = Path("var/bench"),
    as_json: AsJson = False,
) -> None:
    """Look streams of uniform and of skewed keys up in a MariaDB, against Spark's own means."""
    from endmark_benchmarks.measurements.lookup_join import CONTENDERS, LookupJoinOptions, measure

    names, delays = tuple(contenders or CONTENDERS), tuple(delay or [0.0])
    sizes = tuple(batch_rows or (100_000, 400_000))
    options = LookupJoinOptions(stream_rows, relation_rows, sizes, delays, driver, repeats, names, recordings)
    _show(measure(options, say), as_json=as_json)


@app.command()
def lookup_map(
    rows: Annotated[
        list[int] | None, typer.Option(help="Rows of R; repeat for more. [0.5, 2 and 8 million]")
    ] = None,
    exponent: Annotated[
        list[float] | None, typer.Option(help="Skew of the keys; repeat for more. [0, 0.5, 1 and 1.25]")
    ] = None,
    delay: Annotated[
        list[float] | None, typer.Option(help="Milliseconds added to a statement; repeat for more. [0 and 2]")
    ] = None,
    memory: Annotated[
        list[int] | None, typer.Option(help="MB that rows may wait in; repeat for more. [50 and 250]")
    ] = None,
    driver: Driver = "pymysql",
    seconds: Annotated[
        float, typer.Option(help="Seconds of measuring, for each contender, cell and turn.")
    ] = 2.0,
    repeats: Repeats = 3,
    as_json: AsJson = False,
) -> None:
    """Try every strategy of the lookup over sizes, skew, distance and memory."""
    from endmark_benchmarks.measurements.lookup_map import LookupMapOptions, measure_map

    options = LookupMapOptions(
        tuple(rows or (500_000, 2_000_000, 8_000_000)),
        tuple(exponent or (0.0, 0.5, 1.0, 1.25)),
        tuple(delay or (0.0, 2.0)),
        tuple(memory or (50, 250)),
        driver,
        seconds,
        repeats,
    )
    _show(measure_map(options, say), as_json=as_json)


@app.command()
def stream_join(
    files: Annotated[int, typer.Option(min=3, help="Seconds of event time per stream.")] = 60,
    rows: Annotated[int, typer.Option(min=1, help="Rows per file and stream.")] = 100_000,
    files_per_batch: Annotated[
        list[int] | None, typer.Option(min=1, help="Files per stream and batch; repeat for more. [1]")
    ] = None,
    repeats: Repeats = 3,
    contenders: Contenders = None,
    recordings: Recordings = Path("var/bench"),
    as_json: AsJson = False,
) -> None:
    """Join two streams within a window, beside Spark's own join, Flink's, and DuckDB's of all at once."""
    from endmark_benchmarks.measurements.stream_join import CONTENDERS, StreamJoinOptions, measure

    names, sizes = tuple(contenders or CONTENDERS), tuple(files_per_batch or [1])
    _show(measure(StreamJoinOptions(files, rows, sizes, repeats, names, recordings), say), as_json=as_json)


@app.command()
def nexmark(
    query: Annotated[
        list[str] | None, typer.Option(help="A query of Nexmark; repeat for more. [all]")
    ] = None,
    batches: Annotated[int, typer.Option(min=3, help="Batches of all streams that a query reads.")] = 9,
    batch_events: Annotated[
        int, typer.Option(min=100, help="Events of a batch, of all streams together.")
    ] = 200_000,
    rate: Annotated[int, typer.Option(min=1, help="Events for a second of event time.")] = 10_000,
    repeats: Repeats = 3,
    contenders: Contenders = None,
    recordings: Recordings = Path("var/bench"),
    as_json: AsJson = False,
) -> None:
    """Answer queries of the Nexmark benchmark on frames, beside Spark's own operators and DuckDB at once."""
    from endmark_benchmarks.measurements.nexmark import CONTENDERS, NexmarkOptions, measure
    from endmark_benchmarks.workloads.nexmark.queries import QUERIES

    queries, names = tuple(query or QUERIES), tuple(contenders or CONTENDERS)
    options = NexmarkOptions(queries, batches, batch_events, rate, repeats, names, recordings)
    _show(measure(options, say), as_json=as_json)


@app.command()
def pipeline(
    records: Records = 1_500_000,
    batch_records: BatchRecords = 150_000,
    sellers: Sellers = 500_000,
    rate: Rate = 20_000.0,
    repeats: Repeats = 3,
    contenders: Contenders = None,
    recordings: Recordings = Path("var/bench"),
    as_json: AsJson = False,
) -> None:
    """Run the auction from Kafka to Delta tables, beside Spark's own operators, Flink, Pathway and DuckDB."""
    from endmark_benchmarks.measurements.pipeline import CONTENDERS, PipelineOptions, measure

    names = tuple(contenders or CONTENDERS)
    options = PipelineOptions(records, batch_records, sellers, rate, repeats, recordings, names)
    _show(measure(options, say), as_json=as_json)


@app.command()
def lookup_alone(
    records: Records = 1_500_000,
    batch_records: BatchRecords = 150_000,
    sellers: Sellers = 500_000,
    rate: Rate = 20_000.0,
    repeats: Repeats = 3,
    recordings: Recordings = Path("var/bench"),
    as_json: AsJson = False,
) -> None:
    """Look the auction's bids up from Kafka to a Delta table, beside the same in Spark."""
    from endmark_benchmarks.measurements.lookup_alone import measure
    from endmark_benchmarks.measurements.pipeline import PipelineOptions

    options = PipelineOptions(records, batch_records, sellers, rate, repeats, recordings)
    _show(measure(options, say), as_json=as_json)


@app.command()
def three_streams(
    records: Annotated[int, typer.Option(min=3, help="In all topics.")] = 500_000,
    batch_records: BatchRecords = 100_000,
    rate: Annotated[float, typer.Option(min=1, help="Records for four hours of event time.")] = 20_000.0,
    repeats: Repeats = 3,
    recordings: Recordings = Path("var/bench"),
    as_json: AsJson = False,
) -> None:
    """Join three streams on one key from Kafka to a Delta table, beside Spark's chain of two joins."""
    from endmark_benchmarks.measurements.three_streams import ThreeStreamsOptions, measure

    options = ThreeStreamsOptions(records, batch_records, rate, repeats, recordings)
    _show(measure(options, say), as_json=as_json)


@app.command()
def further_stage(
    records: Records = 600_000,
    batch_records: BatchRecords = 100_000,
    sellers: Sellers = 50_000,
    rate: Rate = 20_000.0,
    repeats: Repeats = 3,
    fed: Annotated[float, typer.Option(min=1, help="Records a second, for the latency.")] = 10_000.0,
    warm_seconds: Annotated[float, typer.Option(min=0, help="Fed before latency is measured.")] = 12.0,
    seconds: Annotated[float, typer.Option(min=1, help="Fed while latency is measured.")] = 15.0,
    trigger_seconds: Annotated[float, typer.Option(min=0, help="Least time between batch starts.")] = 1.0,
    latency_repeats: Annotated[int, typer.Option(min=1, help="Runs of each job for its latency.")] = 2,
    recordings: Recordings = Path("var/bench"),
    as_json: AsJson = False,
) -> None:
    """Run the auction with groups by the join's key, and by another one in a further stage."""
    from endmark_benchmarks.measurements.further_stage import FurtherStageOptions, measure
    from endmark_benchmarks.measurements.pipeline import PipelineOptions

    rates = PipelineOptions(records, batch_records, sellers, rate, repeats, recordings)
    options = FurtherStageOptions(rates, fed, warm_seconds, seconds, trigger_seconds, latency_repeats)
    _show(measure(options, say), as_json=as_json)


@app.command()
def recovery(
    records: Records = 1_500_000,
    batch_records: BatchRecords = 20_000,
    sellers: Sellers = 500_000,
    rate: Rate = 20_000.0,
    batches: Annotated[int, typer.Option(min=1, help="Before the job is killed.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="Starts and kills.")] = 5,
    recordings: Recordings = Path("var/bench"),
    as_json: AsJson = False,
) -> None:
    """Time a job from its start, and from kill -9, to its first output, stage by stage."""
    from endmark_benchmarks.measurements.recovery import RecoveryOptions, measure

    options = RecoveryOptions(records, batch_records, sellers, rate, batches, repeats, recordings)
    _show(measure(options, say), as_json=as_json)


@app.command()
def latency(
    highest: Annotated[
        float | None, typer.Option(min=1, help="Records a second that the job keeps up with. [looked for]")
    ] = None,
    share: Annotated[
        list[float] | None, typer.Option(help="Percent of that; repeat for more. [10, 25, 50 and 80]")
    ] = None,
    warm_seconds: Annotated[float, typer.Option(min=0, help="Fed before anything is measured.")] = 20.0,
    seconds: Annotated[float, typer.Option(min=1, help="Fed and measured.")] = 40.0,
    sellers: Sellers = 50_000,
    rate: Rate = 20_000.0,
    trigger_seconds: Annotated[float, typer.Option(min=0, help="Least time between batch starts.")] = 0.0,
    recordings: Recordings = Path("var/bench"),
    as_json: AsJson = False,
) -> None:
    """Time records from when they should arrive until Delta tables show their results, under load."""
    from endmark_benchmarks.measurements.latency import LatencyOptions, measure

    shares = tuple(share or (10.0, 25.0, 50.0, 80.0))
    options = LatencyOptions(
        highest, shares, warm_seconds, seconds, sellers, rate, trigger_seconds, recordings
    )
    _show(measure(options, say), as_json=as_json)


def _show(report: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report, indent=1))
        return
    from endmark_benchmarks.page.write import tables

    for table in tables(report):
        Console().print(table.rich())


if __name__ == "__main__":
    main(app)
