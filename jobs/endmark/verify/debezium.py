"""Debezium's envelopes, read strictly and one at a time.

What counts of an envelope must be there once: `op`, the row image that it speaks of, and the image's columns.
The rest must be JSON, and may be anything.
"""

from __future__ import annotations

import json
from typing import Any

from endmark.pipeline import Stream
from endmark.verify.patterns import MARK


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as its members in order, doubled ones included."""

    def one(self, wanted: str) -> Any:
        (found,) = (value for member, value in self if member == wanted)
        return found


def flat(value: bytes, declared: Stream) -> bytes | None:
    """The row of an envelope, or the punctuation that a deletion is; `None` for any other record."""
    try:
        document = json.loads(
            value.decode("utf-8"), object_pairs_hook=_Pairs, parse_constant=_refuse, parse_int=integer
        )
        json.dumps(document, ensure_ascii=False).encode("utf-8")  # half a surrogate pair is no text
        return _said(document, declared)
    except (ValueError, RecursionError):
        return None


def _said(document: Any, declared: Stream) -> bytes | None:
    envelope = _object(document)
    if any(member == "payload" for member, _ in envelope):
        envelope = _object(envelope.one("payload"))
    match envelope.one("op"):
        case "c" | "r":
            return _row(envelope)
        case "u" if declared.updates == "rows":
            return _row(envelope)
        case "d":
            before = _object(envelope.one("before"))
            key = {column: {"equals": before.one(column)} for column in declared.punctuated_on}
            return json.dumps({MARK: key}, ensure_ascii=False).encode()
    return None


def _row(envelope: _Pairs) -> bytes:
    members = _object(envelope.one("after"))
    if len(dict(members)) < len(members):
        raise ValueError("a column stands twice")
    return json.dumps(dict(members), ensure_ascii=False).encode()


def _object(value: Any) -> _Pairs:
    if not isinstance(value, _Pairs):
        raise ValueError("no object")  # of whoever wrote the record
    return value


def integer(digits: str) -> int:
    """An integer; one of more digits than Python reads is out of every column's range, as this one is."""
    return int(digits) if len(digits) < 1000 else 10**1000


def _refuse(constant: str) -> Any:
    raise ValueError(constant)
