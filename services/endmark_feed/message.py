"""The Kafka records of a feed, their kinds, and the punctuations of the auction."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from endmark.client import key_hash

ITEMS = "items"
BIDS = "bids"
EPOCH = "2026-01-01T00:00:00.000000"  # the event time at which every run begins, in UTC


class Kind(StrEnum):
    """The kind of a record.

    `ITEM`, `BID`, `ROW` (of another workload), `PUNCTUATION` and `TOMBSTONE` are good records. All others are
    bad. Records of the kinds in `DEAD_LETTERS` cannot be read. Records of the kinds in `VIOLATIONS` were
    ruled out by their own stream.
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
    """A Kafka record, with the time to publish it.

    Args:
        topic: the topic.
        partition: the partition.
        key: the record's key.
        value: the record's value; a tombstone is sent without a value.
        due_seconds: seconds since the beginning of the run.
        kind: the kind of the record.
    """

    topic: str
    partition: int
    key: bytes
    value: bytes
    due_seconds: float
    kind: Kind


def keyed(
    topic: str, partitions: Mapping[str, int], number: int, value: bytes, due: float, kind: Kind
) -> Message:
    """Return a message whose key is a number, in the partition where Kafka's producers send this key.

    Args:
        topic: the topic.
        partitions: the number of partitions of each topic.
        number: the key.
        value, due, kind: the fields of `Message`.
    """
    key = b"%d" % number
    return Message(topic, key_hash(key) % partitions[topic], key, value, due, kind)


def money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"


def punctuation(item_id: int) -> bytes:
    return b'{"$punctuation": {"item_id": {"equals": %d}}}' % item_id
