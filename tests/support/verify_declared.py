"""The declarations of a stream about its rows, by definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from endmark.pipeline import Stream
from endmark.verify.formats.patterns import Bound
from support.verify_fates import Key, Promise

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Conditions of closing rules, and what they mean.
LAST: dict[str, Callable[[dict[str, Any]], bool]] = {
    "seller_id = 3": lambda row: row["seller_id"] == 3,
    "Seller_ID in (2, 4) -- or so": lambda row: row["seller_id"] in (2, 4),
    # It fails on sellers above 3.
    "seller_id >= 3 AND seller_id + 9223372036854775804 > 0": lambda row: row["seller_id"] == 3,
}


def is_future(stream: Stream, moment: datetime, stamped: int) -> bool:
    """Return whether an event time is too far ahead of the record's timestamp in Kafka, in milliseconds."""
    ahead = stream.event_time.ahead
    return ahead is not None and moment - ahead > _EPOCH + stamped * timedelta(milliseconds=1)


def first_possible(stream: Stream, promise: Promise) -> datetime | None:
    """The first event time that a heartbeat leaves possible; None for any other promise."""
    if not promise.is_heartbeat(stream.event_time.column):
        return None
    ((_, bound),) = promise.bounds
    end: datetime = bound.high
    return end if bound.high_open else end + timedelta(microseconds=1)


def said_by_row(stream: Stream, row: dict[str, Any], on: tuple[str, ...]) -> Key | Promise | None:
    """The key that a row closes by its stream's closing rule, or what it says otherwise."""
    rule = stream.closes
    if rule is None or not LAST[rule.when](row):
        return None
    if set(rule.on) == set(on):
        return tuple(row[name] for name in on)
    return Promise(tuple((name, Bound(among=frozenset([row[name]]))) for name in sorted(rule.on)))


def precedes(stream: Stream, key: Key, other: Key) -> bool:
    """Return whether a key must not come after another, by the order of its stream."""
    for direction in stream.ordered.values():
        return key < other if direction == "ascending" else key > other
    return False


def end_of_run(stream: Stream, rows: Sequence[tuple[int, Key]], key: Key) -> int | None:
    """The offset of the row that ends the first run of a key, given those of a partition of a clustered
    stream with their offsets."""
    ends = (offset for (_, before), (offset, now) in pairwise(rows) if before == key != now)
    return next(ends, None) if stream.clustered else None


def is_behind(ended: int | None, offset: int, names: Sequence[int]) -> bool:
    """Return whether a row comes after the end of its key's run, and no punctuation names the key before."""
    return ended is not None and ended < min([*names, offset])
