"""Why a record was rejected, in words for the person who has to mend its producer. Slow and rarely run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from endmark.types import ColumnType

if TYPE_CHECKING:
    from collections.abc import Mapping

_KINDS: dict[ColumnType, tuple[type, ...]] = {
    ColumnType.LONG: (int,),
    ColumnType.DOUBLE: (int, float),
    ColumnType.STRING: (str,),
    ColumnType.BOOLEAN: (bool,),
    ColumnType.TIMESTAMP: (str,),
}


@dataclass(frozen=True)
class Rejection:
    """A record that is no row and no punctuation: its position in the input, why, and its bytes.

    `reason` is one of empty, not_utf8, malformed, not_an_object, duplicate_field, unknown_field,
    missing_field, wrong_type, bad_value, bad_punctuation.
    """

    at: int
    reason: str
    error: str
    value: bytes | None


class _DuplicateError(ValueError):
    pass


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _DuplicateError(next(name for name in names if names.count(name) > 1))
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _read(value: bytes) -> Any:
    return json.loads(
        value.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_refuse_constant
    )


def respell(value: bytes | None) -> bytes | None:
    """A JSON object with its names and texts spelled without needless escapes; `None` for anything else."""
    if not value or b"\\" not in value:
        return None
    try:
        record = _read(value)
        return json.dumps(record, ensure_ascii=False).encode("utf-8") if isinstance(record, dict) else None
    except (ValueError, RecursionError):
        return None


def explain_row(value: bytes, columns: Mapping[str, ColumnType]) -> tuple[str, str]:
    """Reason and error of a record that is no row of `columns`."""
    if not value.strip():
        return "empty", "the record has no value"
    try:
        record = _read(value)
    except UnicodeDecodeError as error:
        return "not_utf8", f"byte {error.start} is not UTF-8"
    except _DuplicateError as error:
        return "duplicate_field", f"member {str(error)!r} stands twice"
    except (ValueError, RecursionError) as error:
        return "malformed", f"not JSON: {error}"
    if not isinstance(record, dict):
        return "not_an_object", f"a record is a JSON object, this is {type(record).__name__}"
    return _explain_fields(record, columns)


def _explain_fields(record: dict[str, Any], columns: Mapping[str, ColumnType]) -> tuple[str, str]:
    for name in record:
        if name not in columns:
            return "unknown_field", f"field {name!r} is not declared; declared are {', '.join(columns)}"
    for name, kind in columns.items():
        if record.get(name) is None:
            return "missing_field", f"field {name!r} is missing or null"
        found = record[name]
        # type(), since a bool is an int to isinstance().
        if type(found) not in _KINDS[kind]:
            return "wrong_type", f"field {name!r} must be {kind.value}, but is {json.dumps(found)[:80]}"
    return "bad_value", "a number is out of range, or a timestamp is not like 2026-01-01T00:00:00.000000Z"


def explain_punctuation(value: bytes, punctuated_on: str | None) -> tuple[str, str]:
    """Reason and error of a record that begins like a punctuation and is none."""
    if punctuated_on is None:
        return "bad_punctuation", "this stream has no `punctuated_on`, so it takes no punctuations"
    example = f'{{"$punctuation": {{"{punctuated_on}": {{"equals": 42}}}}}}'
    return "bad_punctuation", f"a punctuation is {example}, this is {value[:80].decode('utf-8', 'replace')}"
