"""Dead letters and violations of a frame as text, which leaves among its punctuations for want of tables.

    {"$dead_letter": {"frame": "left", "reason": "bad_punctuation", "error": "not JSON: ...", "value": "{"}}
    {"$violation": {"frame": "left", "reason": "late", "record": {"item_id": 42, "bid": "12.50"}}}

Rare, so a row at a time will do.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from endmark.spark.violations import named_promise

if TYPE_CHECKING:
    from collections.abc import Iterable

    from endmark.joins.admit import Violation
    from endmark.spark.streams import StreamPlan

_DEAD_LETTER = "$dead_letter"
_VIOLATION = "$violation"
# How such a text begins.
MARKED = rf'^\{{"\$(?:{_DEAD_LETTER[1:]}|{_VIOLATION[1:]})": '


def dead_letters(frame: str, rejected: Iterable[tuple[str, str]]) -> pa.RecordBatch:
    """Of texts that are no punctuation, each with what is wrong."""
    return _batch(
        {_DEAD_LETTER: {"frame": frame, "reason": "bad_punctuation", "error": error, "value": text}}
        for text, error in rejected
    )


def violations(frame: StreamPlan, violation: Violation) -> pa.RecordBatch:
    """Of rows that were not joined: `late`, or `closed` with the promise they break if that is on the key."""
    promises = violation.promises or [None] * violation.rows.num_rows
    rows = violation.rows.select(frame.side.schema.names).to_pylist()
    return _batch(
        {
            _VIOLATION: {
                "frame": frame.name,
                "reason": violation.reason,
                "record": {name.removeprefix(f"{frame.name}_"): value for name, value in row.items()},
                **({} if promise is None else {"promise": named_promise(frame, promise)}),
            }
        }
        for row, promise in zip(rows, promises, strict=True)
    )


def _batch(reports: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    texts = [json.dumps(_plain(report), ensure_ascii=False) for report in reports]
    return pa.record_batch({"text": pa.array(texts, pa.string())})


def _plain(value: Any) -> Any:
    """What JSON has values for; a frame may have columns of any type."""
    match value:
        case dict():
            return {str(name): _plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case None | bool() | int() | str():
            return value
        case float() if isfinite(value):
            return value
        case bytes():
            return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
