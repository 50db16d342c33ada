"""The inputs of the join, and the names that SQL templates use for tables and columns of streams."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from endmark.domain import Domain
from endmark.pipeline import COORDINATES, Pipeline
from endmark.pipeline.stage import Stage
from endmark.types import ColumnType
from endmark.verify.session import name, text

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Side:
    """One input of the join.

    Args:
        stream: the name of its stream, which may be the join of the stage before.
        others: the names of the other inputs.
        window: the event time for which its rows stay joinable; `None` is for ever.
        preserved: whether its rows are results even without a partner. If so, there are two inputs.
    """

    stream: str
    others: tuple[str, ...]
    window: timedelta | None
    preserved: bool


def join_sides(stage: Stage) -> tuple[Side, ...]:
    """Return the inputs of a stage's join, in their order; none if it has no join."""
    if stage.join is None:
        return ()
    keeps = stage.join.type.keeps_left, stage.join.type.keeps_right
    return tuple(
        Side(
            stream,
            tuple(other for other in stage.inputs if other != stream),
            stage.window_of(stream),
            keeps[number > 0],
        )
        for number, stream in enumerate(stage.inputs)
    )


def microseconds(duration: timedelta | None) -> int | None:
    """Return a duration in microseconds; `None` for `None`."""
    return None if duration is None else duration // _MICROSECOND


def key_column(column: str) -> str:
    """Return the name of a key column in tables of keys. The `#` tells it from the columns of a stream."""
    return f"#{column}"


def spelled(value: str, kind: ColumnType) -> str:
    """Return the SQL of a value as data records spell it in JSON. Types that JSON lacks are text.

    Args:
        value: the SQL of the value.
        kind: the type of the value.
    """
    match kind.domain:
        case Domain.TIMESTAMP:
            return f"strftime(make_timestamp(epoch_us({value})), '%Y-%m-%dT%H:%M:%S.%fZ')"
        case Domain.DATE:
            return f"strftime({value}, '%Y-%m-%d')"
        case Domain.DECIMAL:
            # DuckDB writes the half of a decimal(4,4) as .5000.
            return rf"regexp_replace({value}::VARCHAR, '^(-?)\.', '\10.')"
    return value


def coordinates(stream: str) -> list[str]:
    """Return the columns of a result that have the coordinates of a stream's record."""
    return [f"{stream}_{coordinate}" for coordinate in COORDINATES]


def topics_of(pipeline: Pipeline, stream: str) -> str:
    """Return the topics of a stream or of the members of a union, as a list of SQL texts."""
    return ", ".join(text(pipeline.streams[member].topic) for member in pipeline.flow.members_of(stream))


def stream_names(pipeline: Pipeline, stream: str) -> dict[str, str]:
    """Return the tables and columns of an input of a stage, under the names that the templates use.

    The input is a stream, or the join of the stage before. The latter has the coordinates of the stream that
    has its event time.

    `key` lists the columns of a table of keys. `named_key` lists the stream's own key columns under these
    names. `promised` is the condition that a promise `p` has the key of a row `r`. `row` is the column of
    expected results with the `rowid` in `side`, since a record may be several rows there.
    """
    stage = pipeline.stage_of(stream)
    partition, offset = map(name, coordinates(stage.timed_by(stream)))
    own_key = zip(stage.key, stage.key_columns(stream), strict=True)
    keys = {name(key_column(column)): name(own) for column, own in own_key}
    return {
        "rows": name(f"rows_{stream}"),
        "promises": name(f"promises_{stream}"),
        "deletions": name(f"deletions_{stream}"),
        "named": name(f"named_{stream}"),
        "patterns": name(f"patterns_{stream}"),
        "closing": name(f"closing_{stream}"),
        "wider": name(f"wider_{stream}"),
        "closed": name(f"closed_{stream}"),
        "heartbeats": name(f"heartbeats_{stream}"),
        "judged": name(f"judged_{stream}"),
        "side": name(f"side_{stream}"),
        "row": name(f"#row {stream}"),
        "partition": partition,
        "offset": offset,
        "time": name(stage.time_of(stream)),
        "key": ", ".join(keys),
        "named_key": ", ".join(f"{own} AS {key}" for key, own in keys.items()),
        "promised": " AND ".join(f"p.{key} = r.{own}" for key, own in keys.items()),
    }
