"""`endmark feed`, `feed-example` and `feed-workload` publish streams to Kafka."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from endmark.cli.options import AsJson, Bootstrap, KafkaFile, Output, kafka_in

if TYPE_CHECKING:
    from endmark_feed.auction_feed import FeedProgress
    from endmark_feed.publish import Published

Pace = Annotated[
    Literal["real", "fast"], typer.Option(help="real is the stream's own pace; fast is the broker's.")
]


def feed(
    bootstrap: Bootstrap = None,
    kafka_file: KafkaFile = None,
    relation_url: Annotated[
        str | None,
        typer.Option(
            help="Database in which to fill the table sellers first.",
            envvar="ENDMARK_RELATION_URL",
            show_envvar=True,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal records.")] = 1,
    minutes: Annotated[float, typer.Option(help="Length of the run.")] = 5.0,
    rate: Annotated[float, typer.Option(help="Mean records a second.")] = 2_000.0,
    sellers: Annotated[int, typer.Option(help="Rows of the master table.")] = 500_000,
    open_items: Annotated[int, typer.Option(help="Auctions open at a time.")] = 2_000,
    zipf_exponent: Annotated[float, typer.Option(help="Skew of sellers; 0 is uniform.")] = 1.0,
    bad_rate: Annotated[float, typer.Option(help="Share of bad records.")] = 0.0005,
    as_json: AsJson = False,
) -> None:
    """Publish the auction workload in real time."""
    from endmark_feed.auction_feed import FeedOptions, run_feed, seed_relation

    output, kafka = Output(as_json), kafka_in(kafka_file, bootstrap)
    options = FeedOptions(
        seed=seed,
        minutes=minutes,
        rate=rate,
        sellers=sellers,
        open_items=open_items,
        zipf_exponent=zipf_exponent,
        bad_rate=bad_rate,
    )

    report = partial(_report, output, as_json=as_json)
    if relation_url is not None:
        output.say(f"sellers: {seed_relation(relation_url, sellers, seed):,} rows")
    report(run_feed(options, kafka, report))


def feed_example(
    name: Annotated[
        Literal["fulfilment", "news", "orders"], typer.Argument(help="The example pipeline to feed.")
    ],
    relation_url: Annotated[
        str | None,
        typer.Option(
            help="Database in which to fill the master tables first.",
            envvar="ENDMARK_RELATION_URL",
            show_envvar=True,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal records.")] = 1,
    minutes: Annotated[float, typer.Option(help="Length of the run.")] = 5.0,
    rate: Annotated[float, typer.Option(help="Mean records a second.")] = 1_000.0,
    pace: Pace = "real",
    bootstrap: Bootstrap = None,
    kafka_file: KafkaFile = None,
    as_json: AsJson = False,
) -> None:
    """Publish the workload of an example pipeline.

    It is a shop's orders with payments and shipments, news access in XML, or orders captured by Debezium.
    """
    from endmark_feed.examples import EXAMPLES, require_length, run_example

    output, kafka = Output(as_json), kafka_in(kafka_file, bootstrap)
    require_length(minutes, rate)  # before tables are filled

    report = partial(_report, output, as_json=as_json)
    if relation_url is not None:
        output.say(f"master tables: {EXAMPLES[name].fill(relation_url, seed):,} rows")
    _done(output, run_example(name, kafka, seed, minutes, rate, pace, report), as_json=as_json)


def _list_workloads(asked: bool) -> None:
    if asked:
        from endmark_feed.papers.names import FORMS

        for form, line in FORMS.items():
            typer.echo(f"{form}: {line}")
        raise typer.Exit


def feed_workload(
    name: Annotated[str, typer.Argument(help="Workload, such as punct-asc-100-40 or zipf-100000-1-500.")],
    topic: Annotated[str, typer.Option(help="Topic to write to; it must be empty.")],
    relation_url: Annotated[
        str | None,
        typer.Option(
            help="Fill the table sold_products of a zipf stream here first; other streams have none.",
            envvar="ENDMARK_RELATION_URL",
            show_envvar=True,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal records.")] = 1,
    values: Annotated[
        int, typer.Option(help="Number of keys that are closed; for uniform and zipf, number of rows.")
    ] = 200,
    horizon: Annotated[
        int, typer.Option(help="Number of keys that have rows before it is their turn to close.")
    ] = 10,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the topic.")] = 1,
    pace: Pace = "real",
    bootstrap: Bootstrap = None,
    kafka_file: KafkaFile = None,
    as_json: AsJson = False,
    listed: Annotated[
        bool, typer.Option("--list", callback=_list_workloads, is_eager=True, help="List the names and stop.")
    ] = False,
) -> None:
    """Publish one stream of the papers' experiments."""
    from endmark_feed.papers.names import parse_workload
    from endmark_feed.papers.sales import Sales
    from endmark_feed.papers.topic_feed import run_workload

    del listed  # its callback has done the work
    workload = parse_workload(name, values, horizon)
    output, kafka = Output(as_json), kafka_in(kafka_file, bootstrap)
    if relation_url is not None and isinstance(workload, Sales):
        from endmark_feed.papers.products import fill_products

        output.say(f"products: {fill_products(relation_url, workload.products):,} rows")
    _done(output, run_workload(workload, kafka, topic, seed, partitions, pace), as_json=as_json)


def _report(output: Output, progress: FeedProgress | Published, *, as_json: bool) -> None:
    if as_json:
        output.emit({**asdict(progress), "records": progress.records})
    else:
        output.say(f"{progress.records:,} records in {progress.seconds:.0f} s")


def _done(output: Output, published: Published, *, as_json: bool) -> None:
    if as_json:
        output.emit({**asdict(published), "records": published.records})
    else:
        rows, punctuations = published.rows, published.punctuations
        typer.echo(f"{rows:,} rows and {punctuations:,} punctuations in {published.seconds:.0f} s")
