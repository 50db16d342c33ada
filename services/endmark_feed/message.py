"""One Kafka record of the feed, and the wire format of the three kinds of good ones."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

ITEMS = "items"
BIDS = "bids"
EPOCH = "2026-01-01T00:00:00.000000"  # event time when a run begins, UTC


class Kind(StrEnum):
    """The kind of a record: an item, a bid, a row of another stream, a punctuation, a mere key, or a bad
    record.
    """

    ITEM = "item"
    BID = "bid"
    ROW = "row"
    PUNCTUATION = "punctuation"
    TOMBSTONE = "tombstone"
    TRUNCATED = "truncated"
    WRONG_TYPE = "wrong_type"
    MISSING_COLUMN = "missing_column"
    UNKNOWN_FIELD = "unknown_field"
    EMPTY = "empty"
    NOT_UTF8 = "not_utf8"
    CLOSED = "closed"
    LATE = "late"


DEAD_LETTERS = (
    Kind.TRUNCATED,
    Kind.WRONG_TYPE,
    Kind.MISSING_COLUMN,
    Kind.UNKNOWN_FIELD,
    Kind.EMPTY,
    Kind.NOT_UTF8,
)
VIOLATIONS = (Kind.CLOSED, Kind.LATE)
BAD = DEAD_LETTERS + VIOLATIONS


class Message(NamedTuple):
    """A Kafka record and when to publish it, in seconds since the run began."""

    topic: str
    partition: int
    key: bytes
    value: bytes
    due_seconds: float
    kind: Kind


def punctuation(item_id: int) -> bytes:
    return b'{"$punctuation": {"item_id": {"equals": %d}}}' % item_id
