"""The command that measures a relation, and predicts the lookup and the join."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from endmark.cli.options import AsJson, Assignments, Output, PipelineOrExample
from endmark.errors import ConfigError
from endmark.pipeline.fields import size
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.control.ops_database.batches import FinishedBatch


def _bytes(text: str) -> int:
    try:
        return int(size(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


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
    from endmark.control.ops_database import forecasts
    from endmark.control.ops_database.database import opened
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
            batches = database.batches.after(spec.name, -1, BATCHES)
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
