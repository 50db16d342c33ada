"""Dead letters and violations of a frame as text. A frame has no tables, so they leave with its punctuations.

    {"$dead_letter": {"frame": "left", "reason": "bad_punctuation", "error": "not JSON: ...", "value": "{"}}
    {"$violation": {"frame": "left", "reason": "late", "record": {"item_id": 42, "bid": "12.50"}}}

They are rare, so they are made a row at a time.
"""

from __future__ import annotations

import json
from base64 import b64encode
from math import isfinite
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from endmark.engine.violation_rows import named_promise
from endmark.python_values import python_value
from endmark.stored_text import MOST, storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from endmark.engine.streams import StreamPlan
    from endmark.expressions.condition_failures import Failures
    from endmark.operators.stream_join.admit import Violation

DEAD_LETTER = "$dead_letter"
VIOLATION = "$violation"
# The beginning of a dead letter or violation, as a regular expression.
MARKED = rf'^\{{"\$(?:{DEAD_LETTER[1:]}|{VIOLATION[1:]})": '


def dead_letters(frame: str, rejected: Iterable[tuple[bytes, str]]) -> pa.RecordBatch:
    """Make dead letters of texts that are no punctuations.

    Args:
        frame: the name of the frame.
        rejected: the bytes of the texts, each with its error.
    """
    texts = [dead_letter({"frame": frame}, "bad_punctuation", error, text) for text, error in rejected]
    return pa.record_batch({"text": pa.array(texts, pa.string())})


def dead_letter(at: Mapping[str, Any], reason: str, error: str, value: bytes | None) -> str:
    """Make the dead letter of a record.

    Args:
        at: the coordinates of the record, by name.
        reason: the name of the reason.
        error: the error in words.
        value: the bytes of the record. Bytes that are not UTF-8 are shown as `base64`. `None` if
            it has none.
    """
    try:
        kept = {"value": None if value is None else value.decode()}
    except UnicodeDecodeError:
        kept = {"base64": b64encode(value or b"").decode()}
    letter = {**at, "reason": reason, "error": storable(error), **kept}
    return json.dumps({DEAD_LETTER: letter}, ensure_ascii=False)


def failures(failed: Failures) -> pa.RecordBatch:
    """Make one text for all pairs of a batch on which the condition of the join failed."""
    error = f"{failed.count:,} pairs, which are no partners: {failed.why}"
    letter = {"frame": failed.at[0]["stream"], "reason": "failed_condition", "error": error, "value": None}
    return _batch([{DEAD_LETTER: letter}])


def violations(frame: StreamPlan, violation: Violation) -> pa.RecordBatch:
    """Make violations of rows that were not joined.

    The reason is `late`, `closed`, or `null` for a null in the key or the time. A `closed` row comes with the
    promise that it breaks, if that is on the key.
    """
    promises = violation.promises or [None] * violation.rows.num_rows
    shown = [name for name in frame.side.schema.names if not name.startswith(f"{frame.name}_$")]
    rows = violation.rows.select(shown)  # without columns that an operator has added for itself
    names = [name.removeprefix(f"{frame.name}_") for name in shown]
    values = zip(*(map(python_value, column) for column in rows.columns), strict=True)
    return _batch(
        {
            VIOLATION: {
                "frame": frame.name,
                "reason": violation.reason,
                "record": dict(zip(names, row, strict=True)),
                **({} if promise is None else {"promise": _short(named_promise(frame, promise))}),
            }
        }
        for row, promise in zip(values, promises, strict=True)
    )


def _short(promise: dict[str, Any]) -> dict[str, Any] | str:
    """Return a promise; if it is long, its text cut off, since each row that breaks it repeats it."""
    text = json.dumps(promise, ensure_ascii=False)
    return promise if len(text) <= MOST else storable(text)


def _batch(reports: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    texts = [json.dumps(_plain(report), ensure_ascii=False) for report in reports]
    return pa.record_batch({"text": pa.array(texts, pa.string())})


def _plain(value: Any) -> Any:
    """Turn a value into one that JSON has.

    A frame may have columns of any type, so the rules of `punctuation.scalars` are not enough here.
    """
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
