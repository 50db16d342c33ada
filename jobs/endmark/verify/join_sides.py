"""The two inputs of the join, and the names that templates use for their tables and columns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from endmark.domain import Domain
from endmark.pipeline import COORDINATES, Pipeline
from endmark.types import ColumnType
from endmark.verify.session import name

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Side:
    """One input of the join; `preserved` and `other_preserved` say whose rows are results without a partner,
    too.
    """

    stream: str
    other: str
    window: timedelta | None
    preserved: bool
    other_preserved: bool


def both_sides(pipeline: Pipeline) -> tuple[Side, Side]:
    join = pipeline.join
    preserved = join.type.keeps_left, join.type.keeps_right
    return (
        Side(join.left, join.right, join.window.left, *preserved),
        Side(join.right, join.left, join.window.right, *reversed(preserved)),
    )


def microseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else duration // _MICROSECOND


def key_column(column: str) -> str:
    """Return the name of a key column in tables of keys; no other column is named with a `#`."""
    return f"#{column}"


def spelled(value: str, kind: ColumnType) -> str:
    """Return SQL for a value as data records spell it in JSON: text, for all types that JSON lacks."""
    match kind.domain:
        case Domain.TIMESTAMP:
            return f"strftime(make_timestamp(epoch_us({value})), '%Y-%m-%dT%H:%M:%S.%fZ')"
        case Domain.DATE:
            return f"strftime({value}, '%Y-%m-%d')"
        case Domain.DECIMAL:
            return f"{value}::VARCHAR"
    return value


def coordinates(stream: str) -> list[str]:
    """Return the columns of a result that identify its record of a stream."""
    return [f"{stream}_{coordinate}" for coordinate in COORDINATES]


def stream_names(pipeline: Pipeline, stream: str) -> dict[str, str]:
    """Return the tables and columns of a stream, under the names that the templates use.

    `key` are columns of a table of keys, `named_key` the stream's own under those names, and `promised` says
    that a promise `p` is of the key of a row `r`. `row` is the column of expected results with the `rowid` in
    `side`, since a record may be several rows there.
    """
    partition, offset = map(name, coordinates(stream))
    keys = {name(key_column(column)): name(f"{stream}_{column}") for column in pipeline.join.on}
    return {
        "rows": name(f"rows_{stream}"),
        "promises": name(f"promises_{stream}"),
        "named": name(f"named_{stream}"),
        "patterns": name(f"patterns_{stream}"),
        "closing": name(f"closing_{stream}"),
        "wider": name(f"wider_{stream}"),
        "closed": name(f"closed_{stream}"),
        "judged": name(f"judged_{stream}"),
        "side": name(f"side_{stream}"),
        "row": name(f"#row {stream}"),
        "partition": partition,
        "offset": offset,
        "time": name(f"{stream}_{pipeline.streams[stream].event_time.column}"),
        "key": ", ".join(keys),
        "named_key": ", ".join(f"{own} AS {key}" for key, own in keys.items()),
        "promised": " AND ".join(f"p.{key} = r.{own}" for key, own in keys.items()),
    }
