"""`endmark ops` serves the state of all jobs over HTTP, `endmark status` prints it once, and `endmark forget`
removes a pipeline."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from endmark.cli.options import OPS_URL, AsJson, KafkaFile, OpsUrl, addresses, kafka_in, warehouse_of
from endmark.errors import ConfigError, MissingPartError, UnreachableError
from endmark.private import keep_private

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from endmark.kafka.cluster import ClusterOrAddress
    from endmark_ops.answers.models import PipelineOverview, Status, Total
    from endmark_ops.readers.lag import Ends

TOKENS = "ENDMARK_OPS_TOKENS"
_TOTALS = {
    "records_total": "records",
    "dead_letters_total": "dead letters",
    "violations_total": "violations",
    "join_results_total": "results",
    "groups_closed_total": "groups",
    "state_rows": "rows in state",
    "closed_keys": "closed keys",
    "promised_keys": "keys that not all partitions or members have promised yet",
}
_BY_STREAM = {"state_rows", "closed_keys", "promised_keys"}


def ops(
    ops_url: OpsUrl = OPS_URL,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8080,
    known_as: Annotated[
        list[str] | None, typer.Option(help="Host name to answer to, besides localhost; repeat for more.")
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            "--broker",
            help="Addresses of Kafka brokers, for knobs, replays and lag.",
            callback=addresses,
            envvar="ENDMARK_BOOTSTRAP",
        ),
    ] = None,
    kafka_file: KafkaFile = None,
    warehouse: Annotated[
        str | None,
        typer.Option(
            help="Directory or s3:// URL of the Delta tables; {pipeline} in it is a pipeline's name, and "
            "must be in it if there are several.",
            envvar="ENDMARK_WAREHOUSE",
        ),
    ] = None,
    tokens_file: Annotated[
        Path | None,
        typer.Option(
            help=f"File with lines NAME:read:TOKEN or NAME:write@PIPELINE:TOKEN; or set {TOKENS}.",
            envvar=f"{TOKENS}_FILE",
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            help="File of PEM with a certificate for HTTPS; without it, HTTP is plain.",
            envvar="ENDMARK_OPS_CERTIFICATE",
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="File of PEM with the certificate's key, without a password.", envvar="ENDMARK_OPS_KEY"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve health, metrics and the dashboard of all pipelines.

    Holders of a write token turn knobs and replay dead letters. Without --ops-url the pipelines are those
    that `endmark run` has started in this directory, with its broker and tables.
    """
    keep_private()
    from endmark_ops.http.access import parse_tokens, read_tokens
    from endmark_ops.http.tls import Certificate
    from endmark_ops.reach import Reach
    from endmark_ops.server import serve

    if (certificate is None) != (key is None):
        raise ConfigError(
            "a certificate needs its key, and a key its certificate; give --certificate and --key"
        )
    tls = None if certificate is None or key is None else Certificate(certificate, key)
    given = os.environ.get(TOKENS, "")
    tokens = parse_tokens(given, TOKENS) if tokens_file is None else read_tokens(tokens_file)

    def ready(url: str) -> None:
        if as_json:
            typer.echo(json.dumps({"event": "ready", "url": url}))
        else:
            typer.echo(f"{time.strftime('%H:%M:%S')} dashboard at {url}", err=True)

    if ops_url == OPS_URL:
        warehouse = warehouse or str(warehouse_of("{pipeline}", None))
    reach = Reach(tokens, _kafka(ops_url, kafka_file, bootstrap), warehouse)
    serve(ops_url, port, host=host, known_as=known_as or (), reach=reach, tls=tls, on_ready=ready)


def status(
    pipeline: Annotated[
        str | None, typer.Argument(help="Name of a pipeline.", show_default="a list of all pipelines")
    ] = None,
    ops_url: OpsUrl = OPS_URL,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            "--broker",
            help="Addresses of Kafka brokers, to count unread records.",
            callback=addresses,
            envvar="ENDMARK_BOOTSTRAP",
        ),
    ] = None,
    kafka_file: KafkaFile = None,
    as_json: AsJson = False,
) -> None:
    """Print the state of a job, its last batch, how far behind it is, and what its streams wait for.

    Without a name, print a line for each pipeline of the ops database.
    """
    from sqlalchemy.exc import SQLAlchemyError

    from endmark_ops.answers.health import STALE_SECONDS
    from endmark_ops.answers.overview import overview
    from endmark_ops.answers.status import status_of
    from endmark_ops.readers.source import OpsReader, UnreadableError
    from endmark_ops.readers.sources import Sources

    reader = OpsReader(ops_url)
    sources = Sources(reader, partial(_ends, _kafka(ops_url, kafka_file, bootstrap)))
    try:
        if pipeline is None:
            overviews = [overview(source, STALE_SECONDS) for source in sources]
            lines = [each.model_dump_json() for each in overviews] if as_json else _listed(overviews)
        else:
            if pipeline not in (names := sources.names()):
                there = ", ".join(names) or "none"
                raise ConfigError(f"the ops database has no pipeline {pipeline}; it has: {there}")
            found = status_of(pipeline, sources.of(pipeline).snapshot(), STALE_SECONDS)
            lines = [found.model_dump_json()] if as_json else list(_status_lines(found))
    except UnreadableError as error:
        is_away = isinstance(error.__cause__, (SQLAlchemyError, UnreachableError, OSError))
        raise (UnreachableError if is_away else MissingPartError)(str(error)) from error
    finally:
        reader.close()
    typer.echo("\n".join(lines))


def forget(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline that no job runs any more.")],
    ops_url: OpsUrl = OPS_URL,
    as_json: AsJson = False,
) -> None:
    """Remove a retired pipeline from the ops database, so that no alert waits for its job.

    Its tables and its checkpoint stay. Its job must be stopped, and would come back with its next start.
    """
    from endmark.control.ops_database.database import opened

    with opened(ops_url) as ops:
        if not ops.forget(pipeline):
            raise ConfigError(
                f"the ops database has nothing of {pipeline}; `endmark status` lists what it has"
            )
    if as_json:
        typer.echo(json.dumps({"pipeline": pipeline, "forgotten": True}))
    else:
        typer.echo(f"removed {pipeline} from the ops database; its tables and checkpoint stay", err=True)


def _kafka(ops_url: str, kafka_file: Path | None, bootstrap: str | None) -> ClusterOrAddress | None:
    """Return the cluster that options name, or that of `endmark broker` for the ops database beside it."""
    if kafka_file is None and bootstrap is None and ops_url != OPS_URL:
        return None
    return kafka_in(kafka_file, bootstrap)


def _ends(kafka: ClusterOrAddress | None, topics: Collection[str]) -> Ends | None:
    """Ask a broker for the ends of topics; `None` if it does not answer or lacks one of them."""
    from kafka.errors import KafkaError

    from endmark_ops.readers.lag import asking_consumer, topic_ends

    if kafka is None:
        return None
    try:
        with closing(asking_consumer(kafka)) as consumer:
            ends = topic_ends(consumer, topics)
    except KafkaError:
        return None
    return ends if ends.keys() >= set(topics) else None


def _listed(overviews: Sequence[PipelineOverview]) -> list[str]:
    if not overviews:
        return ["no pipeline has started with this ops database"]
    heads = ("pipeline", "state", "behind", "records/s", "last batch", "alerts")
    rows = [heads, *map(_row, overviews)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(heads))]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _row(each: PipelineOverview) -> tuple[str, ...]:
    rate, age = each.records_per_second, each.last_batch_age_seconds
    return (
        each.pipeline,
        each.state,
        "unknown" if each.lag_records is None else f"{each.lag_records:,}",
        "-" if rate is None else f"{rate:,.0f}",
        "-" if age is None else f"{age:,.0f} s ago",
        "; ".join(each.alerts),
    )


def _length(seconds: float) -> str:
    """Return a latency in words; of one that exceeds a day, only this is known."""
    from endmark.latency import BOUNDS

    if seconds >= BOUNDS[-1]:
        return "a day or more"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.0f} s"


def _behind(lag: Mapping[str, int]) -> str:
    """Return the number of unread records, and that of each topic that has some."""
    return f"{sum(lag.values()):,} records{_shares(lag)}"


def _shares(counts: Mapping[str, float]) -> str:
    """Return the counts that are not 0 in parentheses, the greatest first; nothing without one."""
    found = sorted((-count, name) for name, count in counts.items() if count)
    return f" ({', '.join(f'{-count:,.0f} of {name}' for count, name in found)})" if found else ""


def _total(total: Total) -> str:
    """Return a total in words; that of state has the share of each stream or step."""
    counts: defaultdict[str, float] = defaultdict(float)
    for each in total.samples:
        counts[each.labels.get("stream", "")] += each.value
    shares = _shares(counts) if total.name in _BY_STREAM else ""
    return f"{_TOTALS[total.name]}: {sum(counts.values()):,.0f}{shares}"


def _status_lines(found: Status) -> Iterator[str]:
    from endmark.kafka.gaps import Gap
    from endmark_ops.answers.progress import moment

    yield f"{found.pipeline} is {found.state}"
    if found.run is not None and found.run.error:
        yield f"error: {found.run.error}"
    if (batch := found.last_batch) is not None:
        took = "" if batch.seconds is None else f", took {batch.seconds:.2f} s"
        yield f"last batch: {batch.batch_id}, {batch.age_seconds:.0f} s ago{took}"
    lag = found.lag_by_topic
    yield "behind: unknown, since no broker tells" if lag is None else f"behind: {_behind(lag)}"
    for gap in found.gaps:
        skipped = Gap(gap.topic, gap.partition, gap.first, gap.end)
        yield f"gap: {skipped} were skipped, up to {skipped.offsets:,} records"
    for progress in found.progress:
        reached = "none yet" if progress.event_time is None else moment(progress.event_time)
        yield f"progress of {progress.stream}: {reached}"
        yield progress.sentence
    for each in found.latency:
        yield (
            f"latency of {each.stream} in the last 5 minutes: p50 {_length(each.p50_seconds)}, "
            f"p99 {_length(each.p99_seconds)}"
        )
    for total in found.totals:
        if total.name in _TOTALS:
            yield _total(total)
