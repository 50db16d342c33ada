"""Reads Debezium's envelopes strictly and one at a time.

An envelope must have each of these once: `op`, the row image that belongs to it, and the columns of the
image. The rest may be any JSON. Under `extra: ignore`, so may columns that are not declared.
"""

from __future__ import annotations

import json
from typing import Any

from endmark.pipeline import Stream
from endmark.verify.patterns import MARK


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object in their order; a name may stand twice."""

    def one(self, wanted: str) -> Any:
        """Return the value of a member.

        Raises:
            ValueError: the member is not there, or stands twice.
        """
        (found,) = (value for member, value in self if member == wanted)
        return found


def flat(value: bytes, declared: Stream) -> bytes | None:
    """Return the row or punctuation of an envelope as flat JSON; `None` for any other record.

    Args:
        value: the bytes of the record.
        declared: the stream, whose `punctuated_on` has the columns that a deletion names.
    """
    try:
        return _translated(_document(value), declared)
    except (ValueError, RecursionError):
        return None


def is_skipped(value: bytes | None, declared: Stream) -> bool:
    """Return whether a record has no effect: a tombstone, or a deletion if deletions name no column."""
    if value is None or declared.punctuated_on:
        return value is None
    return (document := _document(value)) is not None and _op(document) == "d"


def _document(value: bytes) -> Any:
    """Return a record's JSON document; `None` if it is none."""
    try:
        document = json.loads(
            value.decode("utf-8"), object_pairs_hook=_Pairs, parse_constant=_refuse, parse_int=integer
        )
        json.dumps(document, ensure_ascii=False).encode("utf-8")  # raises for half a surrogate pair
    except (ValueError, RecursionError):
        return None
    return document


def _op(document: Any) -> Any:
    try:
        return _envelope(document).one("op")
    except ValueError:
        return None


def _translated(document: Any, declared: Stream) -> bytes | None:
    envelope = _envelope(document)
    match envelope.one("op"):
        case "c" | "r":
            return _row(envelope, declared)
        case "u" if declared.updates == "rows":
            return _row(envelope, declared)
        case "d":
            before = _object(envelope.one("before"))
            key = {column: {"equals": before.one(column)} for column in declared.punctuated_on}
            return json.dumps({MARK: key}, ensure_ascii=False).encode()
    return None


def _envelope(document: Any) -> _Pairs:
    envelope = _object(document)
    if any(member == "payload" for member, _ in envelope):
        return _object(envelope.one("payload"))
    return envelope


def _row(envelope: _Pairs, declared: Stream) -> bytes:
    members = _object(envelope.one("after"))
    counting = [member for member, _ in members if declared.extra != "ignore" or member in declared.columns]
    if len(set(counting)) < len(counting):
        raise ValueError("a column stands twice")
    return json.dumps(dict(members), ensure_ascii=False).encode()


def _object(value: Any) -> _Pairs:
    if not isinstance(value, _Pairs):
        raise ValueError("no object")  # the value of the record is wrong, not the type of an argument
    return value


def integer(digits: str) -> int:
    """Read an integer. One of 1,000 digits or more becomes 10**1000, also too large for every column."""
    return int(digits) if len(digits) < 1000 else 10**1000


def _refuse(constant: str) -> Any:
    raise ValueError(constant)
