"""Reads Debezium's envelopes strictly and one at a time.

An envelope must have each of these once: `op`, the row image that belongs to it, and the columns of the
image. The rest may be any JSON. Under `extra: ignore`, so may columns that are not declared.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from endmark.domain import Domain
from endmark.pipeline import Stream
from endmark.verify.formats.members import Pairs, columns_of, read
from endmark.verify.formats.patterns import MARK

_MARK = b"__debezium_unavailable_value"
LEFT_OUT = (_MARK.decode(), base64.b64encode(_MARK).decode(), _MARK.hex())


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


def is_skipped(value: bytes, declared: Stream) -> bool:
    """Return whether a record is a deletion without effect, since deletions name no column."""
    return not declared.punctuated_on and (document := _document(value)) is not None and _op(document) == "d"


def unfit(row: Mapping[str, Any], declared: Stream) -> str | None:
    """Return the reason of a row in which the connector has put a mark in the place of a text."""
    texts = (row.get(name) for name, kind in declared.columns.items() if kind.domain is Domain.STRING)
    return "unavailable" if any(text in LEFT_OUT for text in texts) else None


def _document(value: bytes) -> Any:
    """Return a record's JSON document; `None` if it is none."""
    try:
        return read(value)
    except (ValueError, RecursionError):
        return None


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
            key = {column: {"equals": _at(before, declared, column)} for column in declared.punctuated_on}
            return json.dumps({MARK: key}, ensure_ascii=False).encode()
    return None


def _envelope(document: Any) -> Pairs:
    envelope = _object(document)
    if any(member == "payload" for member, _ in envelope):
        return _object(envelope.one("payload"))
    return envelope


def _row(envelope: Pairs, declared: Stream) -> bytes:
    members = _object(envelope.one("after"))
    found = columns_of(members, declared.value_paths, ignoring=declared.extra == "ignore")
    return json.dumps(found, ensure_ascii=False).encode()


def _at(before: Pairs, declared: Stream, column: str) -> Any:
    """Return a column's value in a row image."""
    *outer, last = declared.value_paths[column]
    for name in outer:
        before = _object(before.one(name))
    return before.one(last)


def _object(value: Any) -> Pairs:
    if not isinstance(value, Pairs):
        raise ValueError("no object")  # the value of the record is wrong, not the type of an argument
    return value
