"""Finds the reason why a record is rejected, in words for the person who mends its producer.

This code is slow, and runs only for bad records.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from endmark.domain import Domain
from endmark.punctuation.json_shape import MEMBER
from endmark.punctuation.wire_json import first_twice
from endmark.wire.spelling import example, pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from endmark.types import ColumnType

_JSON_TYPES: dict[Domain, tuple[type, ...]] = {
    Domain.LONG: (int,),
    Domain.DOUBLE: (int, float),
    Domain.STRING: (str,),
    Domain.BOOLEAN: (bool,),
    Domain.DATE: (str,),
    Domain.TIMESTAMP: (str,),
    Domain.DECIMAL: (str,),
}


@dataclass(frozen=True)
class Rejection:
    """A record that is neither a row nor a punctuation.

    Args:
        at: the position of the record in the input.
        reason: one of empty, not_utf8, malformed, not_an_object, duplicate_field, unknown_field,
            missing_field, wrong_type, bad_value, bad_punctuation, bad_control, bad_envelope, update,
            too_large, future, expression.
        error: the error in words.
        value: the bytes of the record; `None` for a record without a value.
    """

    at: int
    reason: str
    error: str
    value: bytes | None


class UnreadableError(ValueError):
    """A record cannot be translated to flat JSON. `reason` is the reason of its rejection."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(error)
        self.reason = reason


class Document(dict[str, Any]):
    """A JSON object, and the names of its members that stand twice."""

    twice: frozenset[str] = frozenset()


class _DuplicateError(ValueError):
    pass


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _DuplicateError(first_twice(name for name, _ in pairs))
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _loads(value: bytes, pairs: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    return json.loads(
        value.decode("utf-8"), object_pairs_hook=pairs, parse_constant=_refuse_constant, parse_int=_integer
    )


def _integer(digits: str) -> int:
    """The value of an integer. One of more than 400 digits, too large for every column, is cut to 400.

    Python refuses more than 4,300 digits, and its time grows with their square.
    """
    return int(digits[:400])


def _document(pairs: list[tuple[str, Any]]) -> Document:
    found = Document(pairs)
    if len(found) < len(pairs):
        found.twice = frozenset(
            name for name, times in Counter(name for name, _ in pairs).items() if times > 1
        )
    return found


def read_document(value: bytes) -> Document:
    """Read a JSON object in which members may stand twice.

    Raises:
        UnreadableError: the bytes are no JSON object.
    """
    if not value.strip():
        raise UnreadableError("empty", "the record has no value")
    try:
        record = _loads(value, _document)
        json.dumps(record, ensure_ascii=False).encode("utf-8")
    except UnicodeError as error:
        raise UnreadableError("not_utf8", f"a text is no Unicode: {error}") from None
    except (ValueError, RecursionError) as error:
        raise UnreadableError("malformed", f"not JSON: {error}") from None
    if not isinstance(record, Document):
        raise UnreadableError("not_an_object", f"a record is a JSON object, this is {type(record).__name__}")
    return record


def respell(value: bytes | None, columns: Collection[str] | None = None) -> tuple[bytes, bool] | None:
    """Return a JSON object written without needless escapes, and without members that do not count.

    Args:
        value: the bytes of a record.
        columns: the members that count; `None` for all. If one is `$punctuation`, all others count, too.

    Returns:
        The JSON object, and whether members were left out. `None` if the record is no JSON object, or would
        be the same as before.
    """
    if not value or (columns is None and b"\\" not in value):
        return None
    record = _read_members(value, columns)
    if isinstance(record, tuple):
        return None
    try:
        whole = json.dumps(record, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        return None
    if columns is None or MEMBER in record or record.keys() <= set(columns):
        return (whole, False) if b"\\" in value else None
    counting = {name: member for name, member in record.items() if name in columns}
    return json.dumps(counting, ensure_ascii=False).encode("utf-8"), True


def explain_row(
    value: bytes, columns: Mapping[str, ColumnType], *, ignoring: bool = False
) -> tuple[str, str]:
    """Return the reason and the error of a record that is no row.

    Args:
        value: the bytes of the record.
        columns: the columns of a row.
        ignoring: whether a row may have other members.
    """
    record = _read_members(value, columns if ignoring else None)
    return record if isinstance(record, tuple) else _explain_fields(record, columns, ignoring=ignoring)


def read_object(value: bytes) -> dict[str, Any] | tuple[str, str]:
    """Return the members of a JSON object, or the reason and the error if the record is no object.

    No member stands twice, at any depth.
    """
    return _object(value, _no_duplicates)


def _read_members(value: bytes, counting: Collection[str] | None) -> dict[str, Any] | tuple[str, str]:
    """Return the members of a JSON object, or the reason and the error if the record is no row.

    Args:
        value: the bytes of the record.
        counting: the members that may not stand twice. `None` is for all members at any depth, which is also
            the rule for a record that begins with `$punctuation`.
    """
    if counting is None:
        return read_object(value)
    record = _object(value, _document)
    if not isinstance(record, Document):
        return record
    if next(iter(record), None) == MEMBER:
        return read_object(value)
    if twice := record.twice.intersection(counting):
        return "duplicate_field", f"member {min(twice)!r} stands twice"
    return record


def _object(
    value: bytes, pairs: Callable[[list[tuple[str, Any]]], dict[str, Any]]
) -> dict[str, Any] | tuple[str, str]:
    if not value.strip():
        return "empty", "the record has no value"
    try:
        record = _loads(value, pairs)
    except UnicodeDecodeError as error:
        return "not_utf8", f"byte {error.start} is not UTF-8"
    except _DuplicateError as error:
        return "duplicate_field", f"member {str(error)!r} stands twice"
    except (ValueError, RecursionError) as error:
        return "malformed", f"not JSON: {error}"
    if not isinstance(record, dict):
        return "not_an_object", f"a record is a JSON object, this is {type(record).__name__}"
    return record


def _explain_fields(
    record: dict[str, Any], columns: Mapping[str, ColumnType], *, ignoring: bool
) -> tuple[str, str]:
    for name in record:
        if name not in columns and (name == MEMBER or not ignoring):
            return "unknown_field", f"field {name!r} is not declared; declared are {', '.join(columns)}"
    there = {name: kind for name, kind in columns.items() if not (kind.nullable and record.get(name) is None)}
    for name, kind in there.items():
        if record.get(name) is None:
            return "missing_field", f"field {name!r} is missing or null"
        # We ask for type(), since isinstance() takes a bool for an int.
        if type(record[name]) not in _JSON_TYPES[kind.spelled]:
            return "wrong_type", f"field {name!r} must be {_like(kind)}, but is {_shown(record[name])}"
    for name, kind in there.items():
        if not re.fullmatch(pattern(kind), _shown(record[name], None)):
            return "bad_value", f"field {name!r} must be {_like(kind)}, but is {_shown(record[name])}"
        if kind.spelling and not kind.spelling.holds(record[name]):
            why = f"field {name!r} is {_shown(record[name])}, out of the range of {kind.spelling}"
            return "bad_value", why
    return "bad_value", (
        "a number or a time is out of range, a day is not in the calendar or a text is no Unicode"
    )


def _like(kind: ColumnType) -> str:
    return f"{kind.required} like {example(kind)}{' or null' if kind.nullable else ''}"


def _shown(value: Any, length: int | None = 80) -> str:
    return json.dumps(value, ensure_ascii=False)[:length]


def explain_punctuation(
    why: str, value: bytes, punctuated_on: Mapping[str, ColumnType], heartbeat_on: str | None
) -> tuple[str, str]:
    """Return the reason and the error of a record that begins like a punctuation and is none.

    Args:
        why: the error that reading it has raised.
        value: the bytes of the record.
        punctuated_on: the columns that a punctuation may restrict, with their types.
        heartbeat_on: the column that a heartbeat may restrict; `None` if the stream has no heartbeats.
    """
    if not punctuated_on:
        but = "" if heartbeat_on is None else f" but heartbeats on {heartbeat_on!r}"
        return "bad_punctuation", f"this stream has no `punctuated_on`, so it takes no punctuations{but}"
    equals = ", ".join(f'"{name}": {{"equals": {example(kind)}}}' for name, kind in punctuated_on.items())
    found = value[:80].decode("utf-8", "replace")
    return (
        "bad_punctuation",
        f'{why}; a punctuation is such as {{"$punctuation": {{{equals}}}}}, this is {found}',
    )
