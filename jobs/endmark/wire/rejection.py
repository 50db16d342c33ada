"""Finds the reason why a record is rejected, in words for the person who mends its producer.

This code is slow, and runs only for bad records.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from endmark.domain import Domain, PunctuationError
from endmark.punctuation.json_shape import MEMBER
from endmark.punctuation.scalars import from_scalar
from endmark.punctuation.wire_json import first_twice
from endmark.wire.json.shape import DELETED, NEVER_IGNORED, declared, undeclared
from endmark.wire.json.spelling import example, pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from endmark.types import ColumnType
    from endmark.wire.json.shape import Path, Shape

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
        reason: the name of the reason, such as `wrong_type`. docs/wire-format.md lists all of them.
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
        raise UnreadableError("malformed", _no_json(value, error)) from None
    if not isinstance(record, Document):
        raise UnreadableError("not_an_object", f"a record is a JSON object, this is {type(record).__name__}")
    return record


def _no_json(value: bytes, error: Exception) -> str:
    if value[:1] == b"\0" and value[5:].lstrip()[:1] == b"{":  # a zero, and an id of four bytes
        return (
            "not JSON: the id of a schema stands before it, as serializers for a schema registry write it; "
            "let the producer write JSON alone, or Avro or Protobuf"
        )
    return f"not JSON: {error}"


def respell(value: bytes | None, shape: Shape | None = None) -> tuple[bytes, bool] | None:
    """Return a JSON object written without needless escapes, and without members that do not count.

    Args:
        value: the bytes of a record.
        shape: the members that count; `None` for all. If another one is never ignored, all count, too.

    Returns:
        The JSON object, and whether members were left out. `None` if the record is no JSON object, or would
        be the same as before.
    """
    if not value or (shape is None and b"\\" not in value):
        return None
    record = _read_members(value, shape)
    if isinstance(record, tuple):
        return None
    try:
        whole = json.dumps(record, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        return None
    if shape is None or not (others := {*undeclared(record, shape)}) or NEVER_IGNORED & others:
        return (whole, False) if b"\\" in value else None
    return json.dumps(declared(record, shape), ensure_ascii=False).encode("utf-8"), True


def explain_row(
    value: bytes,
    columns: Mapping[str, ColumnType],
    paths: Mapping[str, Path],
    shape: Shape,
    *,
    ignoring: bool = False,
) -> tuple[str, str]:
    """Return the reason and the error of a record that is no row.

    Args:
        value: the bytes of the record.
        columns: the columns of a row that are in a record's value.
        paths: for each of them the names of the nested members that lead to it.
        shape: the shape that these paths make.
        ignoring: whether a row may have other members.
    """
    record = _read_members(value, shape if ignoring else None)
    if isinstance(record, tuple):
        return record
    for name in undeclared(record, shape):
        if name == DELETED and ignoring:
            return "unknown_field", str(undeclared_mark())
        if name in NEVER_IGNORED or not ignoring:
            fields = ", ".join(map(".".join, paths.values()))
            return "unknown_field", f"field {name!r} is not declared; declared are {fields}"
    return _explain_values(record, columns, paths)


def undeclared_mark() -> UnreadableError:
    """Return the error of a record with the mark of deleted rows, which is no column."""
    return UnreadableError(
        "unknown_field",
        f"field {DELETED!r} says whether a row was deleted, so it is never ignored; declare a column that is "
        f"taken from value.{DELETED}, and leave deleted rows out by a row step",
    )


def read_object(value: bytes) -> dict[str, Any] | tuple[str, str]:
    """Return the members of a JSON object, or the reason and the error if the record is no object.

    No member stands twice, at any depth.
    """
    return _object(value, _no_duplicates)


def _read_members(value: bytes, counting: Shape | None) -> dict[str, Any] | tuple[str, str]:
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
    if (twice := first_twice_in(record, counting)) is not None:
        return "duplicate_field", f"member {twice!r} stands twice"
    return record


def first_twice_in(record: Document, counting: Shape) -> str | None:
    """Return a member that counts and stands twice in its object; `None` if there is none."""
    if twice := record.twice.intersection(counting):
        return min(twice)
    nested = ((record.get(name), inner) for name, inner in counting.items() if isinstance(inner, dict))
    found = (first_twice_in(value, inner) for value, inner in nested if isinstance(value, Document))
    return next((name for name in found if name is not None), None)


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
        return "malformed", _no_json(value, error)
    if not isinstance(record, dict):
        return "not_an_object", f"a record is a JSON object, this is {type(record).__name__}"
    return record


def _explain_values(
    record: Mapping[str, Any], columns: Mapping[str, ColumnType], paths: Mapping[str, Path]
) -> tuple[str, str]:
    """Return the reason and the error of a record whose members are all declared or ignored."""
    there = []
    for name, kind in columns.items():
        field = ".".join(paths[name])
        try:
            value = _value_at(record, paths[name])
        except UnreadableError as why:
            return why.reason, str(why)
        if value is None and not kind.nullable:
            return "missing_field", f"field {field!r} is missing or null"
        # We ask for type(), since isinstance() takes a bool for an int.
        if value is not None and type(value) not in _JSON_TYPES[kind.spelled]:
            return "wrong_type", f"field {field!r} must be {_like(kind)}, but is {_shown(value)}"
        if value is not None:
            there.append((field, kind, value))
    wrong = (error for part in there if (error := _no_value(*part)) is not None)
    return "bad_value", next(
        wrong, "a number or a time is out of range, a day is not in the calendar or a text is no Unicode"
    )


def _no_value(field: str, kind: ColumnType, scalar: Any) -> str | None:
    """Say why a scalar of the right JSON type is no value of its column; return `None` if it is one."""
    if not re.fullmatch(pattern(kind), _shown(scalar, None)):
        return f"field {field!r} must be {_like(kind)}, but is {_shown(scalar)}"
    if kind.spelling:
        out = f"field {field!r} is {_shown(scalar)}, out of the range of {kind.spelling}"
        return None if kind.spelling.holds(scalar) else out
    try:
        from_scalar(scalar, kind.domain)
    except PunctuationError as error:
        return f"field {field!r}: {error}"
    return None


def _value_at(record: Mapping[str, Any], path: Path) -> Any:
    """Return the value of a nested member; `None` if it is missing or null, or an object around it is.

    Raises:
        UnreadableError: something else than an object is where an object should be.
    """
    value: Any = record
    for depth, name in enumerate(path):
        if value is not None and not isinstance(value, dict):
            outer = ".".join(path[:depth])
            raise UnreadableError(
                "wrong_type", f"field {outer!r} must be an object or null, but is {_shown(value)}"
            )
        value = None if value is None else value.get(name)
    return value


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
