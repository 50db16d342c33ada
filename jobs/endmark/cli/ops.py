"""`endmark ops` serves the state of a job over HTTP, and `endmark status` prints it once."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from endmark.cli.options import BROKER, OPS_URL, AsJson, OpsUrl, warehouse_of
from endmark.errors import MissingPartError
from endmark.private import keep_private

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from endmark_ops.lag import Ends
    from endmark_ops.models import Status

TOKENS = "ENDMARK_OPS_TOKENS"
_TOTALS = {
    "records_total": "records",
    "dead_letters_total": "dead letters",
    "violations_total": "violations",
    "join_results_total": "results",
    "groups_closed_total": "groups",
    "state_rows": "rows in state",
}


def ops(
    pipeline: Annotated[str, typer.Option(help="Name of the pipeline to show.")] = "auction",
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
            help="Kafka broker, for knobs, replays and lag.",
            envvar="ENDMARK_BOOTSTRAP",
        ),
    ] = None,
    warehouse: Annotated[
        Path | None, typer.Option(help="Directory of the Delta tables.", envvar="ENDMARK_WAREHOUSE")
    ] = None,
    tokens_file: Annotated[
        Path | None,
        typer.Option(
            help=f"File with lines NAME:read:TOKEN or NAME:write:TOKEN; or set {TOKENS}.",
            envvar=f"{TOKENS}_FILE",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve health, metrics and the dashboard, and knobs and replays for holders of a write token.

    Without --ops-url it shows the job that `endmark run` has started in this directory, with its broker and
    tables.
    """
    keep_private()
    from endmark_ops.access import parse_tokens, read_tokens
    from endmark_ops.reach import Reach
    from endmark_ops.server import serve

    given = os.environ.get(TOKENS, "")
    tokens = parse_tokens(given, TOKENS) if tokens_file is None else read_tokens(tokens_file)

    def ready(url: str) -> None:
        if as_json:
            typer.echo(json.dumps({"event": "ready", "url": url}))
        else:
            typer.echo(f"{time.strftime('%H:%M:%S')} dashboard at {url}", err=True)

    if ops_url == OPS_URL:
        bootstrap, warehouse = bootstrap or BROKER, warehouse_of(pipeline, warehouse)
    reach = Reach(tokens, bootstrap, warehouse)
    serve(
        ops_url,
        pipeline,
        port,
        host=host,
        known_as=known_as or (),
        reach=reach,
        on_ready=ready,
    )


def status(
    pipeline: Annotated[str, typer.Option(help="Name of the pipeline.")] = "auction",
    ops_url: OpsUrl = OPS_URL,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            "--broker",
            help="Kafka broker, to count unread records.",
            envvar="ENDMARK_BOOTSTRAP",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the state of a job, its last batch, how far behind it is, and what its streams wait for."""
    from endmark_ops.health import STALE_SECONDS
    from endmark_ops.routes.status import status as status_of
    from endmark_ops.source import OpsSource, UnreadableError

    if ops_url == OPS_URL:
        bootstrap = bootstrap or BROKER
    source = OpsSource(ops_url, pipeline, partial(_ends, bootstrap))
    try:
        found = status_of(source, STALE_SECONDS)
    except UnreadableError as error:
        raise MissingPartError(str(error)) from error
    finally:
        source.close()
    typer.echo(found.model_dump_json() if as_json else "\n".join(_status_lines(found)))


def _ends(bootstrap: str | None, topics: Collection[str]) -> Ends | None:
    """Ask a broker for the ends of topics; `None` if it does not answer or lacks one of them."""
    from kafka.errors import KafkaError

    from endmark_ops.lag import Broker

    if bootstrap is None:
        return None
    try:
        with Broker(bootstrap) as broker:
            ends = broker.ends(topics)
    except KafkaError:
        return None
    return ends if ends.keys() >= set(topics) else None


def _status_lines(found: Status) -> Iterator[str]:
    yield f"{found.pipeline} is {found.state}"
    if found.run is not None and found.run.error:
        yield f"error: {found.run.error}"
    if (batch := found.last_batch) is not None:
        yield f"last batch: {batch.batch_id}, {batch.age_seconds:.0f} s ago"
    lag = found.lag_records
    yield "behind: unknown, since no broker tells" if lag is None else f"behind: {lag:,} records"
    for progress in found.progress:
        yield progress.sentence
    for total in found.totals:
        if total.name in _TOTALS:
            yield f"{_TOTALS[total.name]}: {sum(each.value for each in total.samples):,.0f}"
