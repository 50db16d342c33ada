"""Finds heartbeats: punctuations on the event time alone that rule out all times up to one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from endmark.pipeline import Stream
from endmark.verify.formats.patterns import Bound, read
from endmark.verify.formats.registry import FORMATS
from endmark.verify.join.sides import microseconds
from endmark.verify.session import Session, name

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LAST = datetime.max.replace(tzinfo=UTC)  # of all times that a record can spell
_PLACE = [("partition", pa.int32()), ("offset", pa.int64())]

Record = dict[str, Any]
Sound = tuple[Record, Mapping[str, Bound]]


def read_punctuations(declared: Stream, records: Iterable[Record]) -> list[Sound]:
    """Return the records that are punctuations of a stream, with what each restricts.

    Heartbeats of the future are among them.

    Args:
        declared: the stream in the pipeline file.
        records: the records, each with its value as flat JSON.
    """
    columns = declared.columns
    found = ((record, read(record["value"], columns, tuple(columns))) for record in records)
    allowed = set(declared.punctuated_on)
    return [
        (record, bounds)
        for record, bounds in found
        if bounds is not None
        and ((allowed and bounds.keys() <= allowed) or _first_possible(declared, bounds) is not None)
    ]


def set_heartbeats_aside(
    session: Session, stream: str, declared: Stream, sound: Sequence[Sound]
) -> list[Sound]:
    """Make `heartbeats_<stream>` and `ahead_<stream>`; return the punctuations that are not of the future.

    `heartbeats_<stream>` has partition, offset, and the first event time in microseconds that no heartbeat of
    the partition up to there rules out. `ahead_<stream>` has the places of heartbeats of the future.

    Args:
        session: the session.
        stream: the name of the stream.
        declared: the stream in the pipeline file.
        sound: the punctuations. A record also has its timestamp in Kafka, in milliseconds.
    """
    ahead = microseconds(declared.event_time.ahead)
    kept, heartbeats, future = [], [], []
    for record, bounds in sound:
        first = _first_possible(declared, bounds)
        place = {column: record[column] for column, _ in _PLACE}
        if first is not None and ahead is not None and first > 1000 * record["timestamp"] + ahead + 1:
            future.append(place)
            continue
        kept.append((record, bounds))
        if first is not None:
            heartbeats.append(place | {"first": first})
    session.run_on(
        pa.Table.from_pylist(heartbeats, pa.schema([*_PLACE, ("first", pa.int64())])),
        'CREATE TABLE $heartbeats AS SELECT "partition", "offset", max(first) OVER '
        '(PARTITION BY "partition" ORDER BY "offset") AS first FROM arriving',
        heartbeats=name(f"heartbeats_{stream}"),
    )
    session.run_on(
        pa.Table.from_pylist(future, pa.schema(_PLACE)),
        "CREATE TABLE $ahead AS FROM arriving",
        ahead=name(f"ahead_{stream}"),
    )
    return kept


def _first_possible(declared: Stream, bounds: Mapping[str, Bound]) -> int | None:
    """Return the first event time that a heartbeat leaves possible; `None` for any other punctuation."""
    if not FORMATS[declared.format].heartbeats or bounds.keys() != {declared.event_time.column}:
        return None
    (bound,) = bounds.values()
    if bound.among is not None or bound.low is not None:
        return None
    high = (_LAST if bound.high is None else bound.high) - _EPOCH
    return high // _MICROSECOND + (0 if bound.high_open else 1)
